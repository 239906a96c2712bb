//! The view of an OSD's object on which a transaction runs.
//!
//! In an OSD, the writes of a call are invisible until the call has succeeded, even to the call
//! itself. So a view keeps the transaction's changes and applies them to what it reads. At the end
//! it returns the changes that lead from the old state to the new state. There is one change for
//! each part of the stream, key and attribute, even if the transaction wrote it several times.

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
///
/// The view asks the OSD whether the object exists only if a result depends on the answer. Most
/// methods only set map entries, which does not depend on it.
pub struct View<'a> {
    object: &'a mut dyn OsdObject,
    /// Size and time in the OSD, once they are known. `Some(None)` if the object does not exist
    /// there.
    stored: Option<Option<OsdStat>>,
    /// Whether a read has found data in the object. The object then exists, so the OSD need not be
    /// asked.
    found: bool,
    presence: Presence,
    /// Whether the transaction has removed the object, so that nothing stored is visible.
    removed: bool,
    /// The byte stream, once it is needed.
    stream: Option<Stream>,
    map: Map,
    attributes: Attributes,
    /// Bytes that the transaction has written.
    charged: usize,
}

/// Whether an object exists within a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// As in the OSD: the transaction has changed nothing.
    AsStored,
    /// It exists.
    Present,
    /// It was removed.
    Absent,
}

impl<'a> View<'a> {
    /// The object as it is before a transaction.
    pub fn new(object: &'a mut dyn OsdObject) -> Self {
        Self {
            object,
            stored: None,
            found: false,
            presence: Presence::AsStored,
            removed: false,
            stream: None,
            map: Map::stored(),
            attributes: Attributes::default(),
            charged: 0,
        }
    }

    /// Whether the object exists now.
    ///
    /// # Errors
    /// Those of the OSD.
    pub fn is_present(&mut self) -> Result<bool> {
        match self.presence {
            Presence::AsStored => self.existed(),
            Presence::Present => Ok(true),
            Presence::Absent => Ok(false),
        }
    }

    /// The changes that bring the object in the OSD to the state after the transaction. Empty if
    /// the transaction changed nothing.
    ///
    /// # Errors
    /// The errors of the OSD.
    pub fn into_changes(mut self) -> Result<Vec<Change>> {
        if self.only_sets_entries() {
            // To set entries, an OSD creates the object if it does not exist.
            return Ok(self.map.changes(false));
        }
        let existed = match self.presence {
            Presence::AsStored => return Ok(vec![]),
            _ => self.existed()?,
        };
        match self.presence {
            // An object that was created and removed in the same transaction never existed.
            Presence::Absent if existed => return Ok(vec![Change::Remove]),
            Presence::Absent => return Ok(vec![]),
            _ => {}
        }
        let fresh = !existed || self.removed;
        let mut changes = Vec::new();
        if existed && self.removed {
            changes.push(Change::Remove);
        }
        if fresh {
            changes.push(Change::Create);
        }
        changes.extend(self.stream.into_iter().flat_map(Stream::changes));
        changes.extend(self.attributes.changes(fresh));
        changes.extend(self.map.changes(fresh));
        // The transaction must give the object a new version, but an OSD assigns no version if
        // nothing changes, or if an empty map is cleared. It does assign one if an entry is
        // removed, even a missing entry. So remove the empty key, which no entry has.
        if changes.iter().all(|change| *change == Change::ClearMap) {
            changes.push(Change::RemoveEntry(Bytes::new()));
        }
        Ok(changes)
    }

    fn only_sets_entries(&self) -> bool {
        let untouched = self.stream.is_none() && !self.removed && self.attributes.are_as_stored();
        untouched && self.map.only_sets()
    }

    /// Whether it exists in the OSD.
    fn existed(&mut self) -> Result<bool> {
        Ok(self.found || self.stored()?.is_some())
    }

    fn stored(&mut self) -> Result<Option<OsdStat>> {
        match self.stored {
            Some(stored) => Ok(stored),
            None => Ok(*self.stored.insert(self.object.stat()?)),
        }
    }

    /// The byte stream, and the object that stores it.
    fn stream(&mut self) -> Result<(&mut Stream, &mut dyn OsdObject)> {
        let size = match &self.stream {
            Some(stream) => stream.size(),
            None => self.stored()?.map_or(0, |stat| stat.size),
        };
        Ok((self.stream.get_or_insert_with(|| Stream::stored(size)), self.object))
    }

    fn must_exist(&mut self) -> Result<()> {
        if self.is_present()? { Ok(()) } else { Err(Error::not_found("no such object")) }
    }

    /// Like [`Self::must_exist`], after a read of the map: an object whose map has an entry exists.
    fn must_hold(&mut self, something: bool) -> Result<()> {
        // Entries that the transaction itself has set do not show that the object is stored.
        self.found |= something && self.presence == Presence::AsStored;
        self.must_exist()
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        bounds::check_transaction_bytes(self.charged + bytes)?;
        self.charged += bytes;
        Ok(())
    }

    /// Creates the object if it does not exist, and records that the transaction changes it.
    fn touch(&mut self) {
        self.presence = Presence::Present;
    }
}

impl ObjectView for View<'_> {
    fn exists(&mut self) -> Result<bool> {
        self.is_present()
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        self.must_exist()?;
        let modified_micros = self.stored()?.map_or(0, |stat| stat.modified_micros);
        let version = self.object.version()?;
        let (stream, _) = self.stream()?;
        Ok(ObjectStat { size: stream.size(), modified_micros, version })
    }

    fn version(&mut self) -> Result<u64> {
        self.object.version()
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        match self.is_present()? {
            true if exclusive => Err(Error::exists("the object already exists")),
            true => Ok(()),
            false => {
                self.touch();
                Ok(())
            }
        }
    }

    fn remove(&mut self) -> Result<()> {
        self.must_exist()?;
        self.presence = Presence::Absent;
        self.removed = true;
        self.stream = Some(Stream::default());
        self.map = Map::none();
        self.attributes = Attributes::none();
        Ok(())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.must_exist()?;
        let (stream, object) = self.stream()?;
        stream.read(offset, offset.saturating_add(length), object)
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = bounds::check_stream_end(offset, data.len() as u64)?;
        self.charge(data.len())?;
        let (stream, _) = self.stream()?;
        if !data.is_empty() {
            stream.write(offset, data);
        } else if end > stream.size() {
            stream.truncate(end);
        }
        self.touch();
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        bounds::check_stream_end(0, data.len() as u64)?;
        self.charge(data.len())?;
        self.stream()?.0.write_full(data);
        self.touch();
        Ok(())
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.stream()?.0.size();
        self.write(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        bounds::check_stream_end(size, 0)?;
        self.stream()?.0.truncate(size);
        self.touch();
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        self.must_exist()?;
        self.stream()?.0.zero(offset, offset.saturating_add(length));
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
        let value = self.map.get(key, self.object)?;
        self.must_hold(value.is_some()).map(|()| value)
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
        let bounds = (limit.min(MAX_MAP_RANGE_ENTRIES), MAX_REPLY_BYTES);
        let range = self.map.range(after, prefix, bounds, self.object)?;
        self.must_hold(!range.entries.is_empty()).map(|()| range)
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        bounds::check_map_range(&[], prefix)?;
        let last = self.map.last(prefix, self.object)?;
        self.must_hold(last.is_some()).map(|()| last)
    }

    fn map_header(&mut self) -> Result<Bytes> {
        let header = self.map.header(self.object)?;
        self.must_hold(!header.is_empty()).map(|()| header)
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
