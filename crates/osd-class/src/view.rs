//! `ObjectView` over an object of an OSD.
//!
//! In an OSD what a call has written is seen by nobody, itself included, before it has succeeded. So a
//! view keeps what the transaction did, lays it over what it reads, and tells at the end which changes
//! lead from what the object was to what it is to be: one per stream part, key and attribute, however
//! often the transaction wrote it.

use bytes::Bytes;
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES};
use nacre_object::{
    Error, MapEntry, MapRange, ObjectStat, ObjectView, Result, TransactionView, bounds,
};

use crate::attributes::Attributes;
use crate::map::Map;
use crate::stream::Stream;
use crate::{Change, OsdObject, OsdStat};

/// An object of an OSD within a transaction.
pub struct View<'a> {
    object: &'a mut dyn OsdObject,
    stored: Option<OsdStat>,
    exists: bool,
    /// Whether it was removed, so that nothing of what is stored shows through.
    removed: bool,
    changed: bool,
    stream: Stream,
    map: Map,
    attributes: Attributes,
    /// Bytes that the transaction has written.
    charged: usize,
}

impl<'a> View<'a> {
    /// The object as it is before a transaction.
    ///
    /// # Errors
    /// Those of the OSD.
    pub fn new(object: &'a mut dyn OsdObject) -> Result<Self> {
        let stored = object.stat()?;
        let exists = stored.is_some();
        Ok(Self {
            object,
            stored,
            exists,
            removed: false,
            changed: false,
            stream: Stream::stored(stored.map_or(0, |stat| stat.size)),
            map: if exists { Map::stored() } else { Map::none() },
            attributes: if exists { Attributes::default() } else { Attributes::none() },
            charged: 0,
        })
    }

    /// Whether the object exists now.
    pub fn is_present(&self) -> bool {
        self.exists
    }

    /// What makes the object in the OSD as the transaction left it; nothing if it changed nothing.
    pub fn into_changes(self) -> Vec<Change> {
        let existed = self.stored.is_some();
        match (self.changed, existed, self.exists) {
            // What was made and removed in one transaction was never there.
            (false, ..) | (true, false, false) => return vec![],
            (true, true, false) => return vec![Change::Remove],
            (true, _, true) => {}
        }
        let fresh = !existed || self.removed;
        let mut changes = Vec::new();
        if existed && self.removed {
            changes.push(Change::Remove);
        }
        if fresh {
            changes.push(Change::Create);
        }
        changes.extend(self.stream.changes());
        changes.extend(self.attributes.changes(fresh));
        changes.extend(self.map.changes(fresh));
        // An OSD gives no new version for clearing a map that is empty, nor for nothing at all, but for
        // removing an entry: no entry has the empty key.
        if changes.iter().all(|change| *change == Change::ClearMap) {
            changes.push(Change::RemoveEntry(Bytes::new()));
        }
        changes
    }

    fn must_exist(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(Error::not_found("no such object")) }
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        bounds::check_transaction_bytes(self.charged + bytes)?;
        self.charged += bytes;
        Ok(())
    }

    /// Makes the object if need be, and the transaction one that changes it.
    fn touch(&mut self) {
        self.exists = true;
        self.changed = true;
    }
}

impl ObjectView for View<'_> {
    fn exists(&mut self) -> Result<bool> {
        Ok(self.exists)
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        self.must_exist()?;
        let modified_micros = self.stored.map_or(0, |stat| stat.modified_micros);
        let version = self.object.version()?;
        Ok(ObjectStat { size: self.stream.size(), modified_micros, version })
    }

    fn version(&mut self) -> Result<u64> {
        self.object.version()
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        match self.exists {
            true if exclusive => Err(Error::exists("the object is there")),
            true => Ok(()),
            false => {
                self.touch();
                Ok(())
            }
        }
    }

    fn remove(&mut self) -> Result<()> {
        self.must_exist()?;
        self.exists = false;
        self.removed = true;
        self.changed = true;
        self.stream = Stream::default();
        self.map = Map::none();
        self.attributes = Attributes::none();
        Ok(())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.must_exist()?;
        self.stream.read(offset, offset.saturating_add(length), self.object)
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = bounds::check_stream_end(offset, data.len() as u64)?;
        self.charge(data.len())?;
        if !data.is_empty() {
            self.stream.write(offset, data);
        } else if end > self.stream.size() {
            self.stream.truncate(end);
        }
        self.touch();
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        bounds::check_stream_end(0, data.len() as u64)?;
        self.charge(data.len())?;
        self.stream.write_full(data);
        self.touch();
        Ok(())
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.stream.size();
        self.write(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        bounds::check_stream_end(size, 0)?;
        self.stream.truncate(size);
        self.touch();
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        self.must_exist()?;
        self.stream.zero(offset, offset.saturating_add(length));
        self.touch();
        Ok(())
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        bounds::check_attribute_name(name)?;
        self.must_exist()?;
        Ok(self.attributes.all(self.object)?.get(name).cloned())
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        self.must_exist()?;
        let all = self.attributes.all(self.object)?.iter();
        Ok(all.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        bounds::check_attribute_name(name)?;
        bounds::check_attribute_value(&value)?;
        let known = self.attributes.all(self.object)?;
        if !known.contains_key(name) {
            bounds::check_attribute_count(known.len() + 1)?;
        }
        self.charge(name.len() + value.len())?;
        self.attributes.set(name, value, self.object)?;
        self.touch();
        Ok(())
    }

    fn remove_attribute(&mut self, name: &str) -> Result<()> {
        bounds::check_attribute_name(name)?;
        self.must_exist()?;
        if !self.attributes.all(self.object)?.contains_key(name) {
            return Err(Error::not_found(format!("no attribute {name:?}")));
        }
        self.charge(name.len())?;
        self.attributes.remove(name, self.object)?;
        self.touch();
        Ok(())
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        bounds::check_map_key(key)?;
        self.must_exist()?;
        self.map.get(key, self.object)
    }

    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        bounds::check_map_key(key)?;
        bounds::check_map_value(&value)?;
        self.charge(key.len() + value.len())?;
        self.map.set(key, Some(value));
        self.touch();
        Ok(())
    }

    fn map_remove(&mut self, key: &[u8]) -> Result<()> {
        bounds::check_map_key(key)?;
        self.must_exist()?;
        self.charge(key.len())?;
        self.map.set(key, None);
        self.touch();
        Ok(())
    }

    fn map_clear(&mut self) -> Result<()> {
        self.must_exist()?;
        self.map.clear();
        self.touch();
        Ok(())
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        bounds::check_map_range(after, prefix)?;
        self.must_exist()?;
        let bounds = (limit.min(MAX_MAP_RANGE_ENTRIES), MAX_REPLY_BYTES);
        self.map.range(after, prefix, bounds, self.object)
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        bounds::check_map_range(&[], prefix)?;
        self.must_exist()?;
        self.map.last(prefix, self.object)
    }

    fn map_header(&mut self) -> Result<Bytes> {
        self.must_exist()?;
        self.map.header(self.object)
    }

    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        bounds::check_map_value(&value)?;
        self.charge(value.len())?;
        self.map.set_header(value);
        self.touch();
        Ok(())
    }
}

impl TransactionView for View<'_> {}
