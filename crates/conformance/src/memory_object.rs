//! One object in memory. It is the model that every engine is compared with, and a view of an
//! object for tests of classes.
//!
//! It is meant to be obviously right, not fast. It consists of a byte vector and three sorted maps,
//! which clones share until one of them is written. A transaction works on a clone, which replaces
//! the original if the transaction succeeds.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::limits::{
    MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES, MAX_SNAPSHOT_ENTRIES, MAX_SNAPSHOTS,
};
use nacre_object::{
    Error, MapEntry, MapRange, ObjectName, ObjectStat, ObjectView, Result, SnapshotName,
    TransactionView, bounds,
};

/// The content of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Content {
    stream: Arc<Vec<u8>>,
    map: Arc<BTreeMap<Bytes, Bytes>>,
    header: Bytes,
    attributes: Arc<BTreeMap<String, Bytes>>,
}

/// A snapshot of an object.
#[derive(Debug, Clone)]
struct Snapshot {
    content: Content,
    version: u64,
    modified_micros: u64,
    /// Whether the running transaction took this snapshot after it changed the object. The snapshot
    /// then gets the version that the commit gives to the object.
    of_this_transaction: bool,
}

/// An object in memory: its committed state, and its state in the running transaction.
///
/// [`MemoryObject::default`] is an object that does not exist and never did.
#[derive(Debug, Clone, Default)]
pub struct MemoryObject {
    /// `None` while the object does not exist.
    content: Option<Content>,
    version: u64,
    modified_micros: u64,
    snapshots: BTreeMap<SnapshotName, Snapshot>,
    /// The snapshots of other objects that `clone_from` and `write_full_from` may copy. The store
    /// provides them.
    clone_sources: BTreeMap<(ObjectName, SnapshotName), Content>,
    changed: bool,
    transaction_bytes: usize,
}

impl MemoryObject {
    /// Whether the object exists.
    pub fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// Whether the store must keep this object: it was written at some time, or has snapshots.
    pub fn is_known(&self) -> bool {
        self.version > 0 || !self.snapshots.is_empty()
    }

    /// Whether the transaction has changed the object so far.
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The version of the last commit; 0 if the object was never written.
    pub fn committed_version(&self) -> u64 {
        self.version
    }

    /// Commits the running transaction, with `now_micros` as its time. Returns whether it changed
    /// the object. If it did, the object gets a new version.
    pub fn commit(&mut self, now_micros: u64) -> bool {
        let changed = std::mem::take(&mut self.changed);
        if changed {
            self.version += 1;
            self.modified_micros = now_micros;
        }
        for snapshot in self.snapshots.values_mut().filter(|s| s.of_this_transaction) {
            snapshot.version = self.version;
            snapshot.modified_micros = now_micros;
            snapshot.of_this_transaction = false;
        }
        self.clone_sources.clear();
        self.transaction_bytes = 0;
        changed
    }

    /// The object as it was at a snapshot.
    ///
    /// # Errors
    /// `NotFound` if there is no snapshot of that name.
    pub fn at_snapshot(&self, name: &SnapshotName) -> Result<Self> {
        let snapshot = self.find_snapshot(name)?;
        Ok(Self {
            content: Some(snapshot.content.clone()),
            version: snapshot.version,
            modified_micros: snapshot.modified_micros,
            snapshots: self.snapshots.clone(),
            ..Self::default()
        })
    }

    /// Lets the transaction clone a snapshot of `source`, the object with this name.
    pub fn offer_clone_source(
        &mut self,
        name: &ObjectName,
        source: &MemoryObject,
        snapshot: &SnapshotName,
    ) {
        if let Some(found) = source.snapshots.get(snapshot) {
            self.clone_sources.insert((name.clone(), snapshot.clone()), found.content.clone());
        }
    }

    fn find_snapshot(&self, name: &SnapshotName) -> Result<&Snapshot> {
        self.snapshots.get(name).ok_or_else(|| Error::not_found(format!("no snapshot {name}")))
    }

    fn clone_source(&self, source: &ObjectName, name: &SnapshotName) -> Result<&Content> {
        let missing = || Error::not_found(format!("no snapshot {name} of {source}"));
        self.clone_sources.get(&(source.clone(), name.clone())).ok_or_else(missing)
    }

    fn content(&self) -> Result<&Content> {
        self.content.as_ref().ok_or_else(|| Error::not_found("no such object"))
    }

    /// The content to change; the object must exist.
    fn existing(&mut self) -> Result<&mut Content> {
        let content = self.content.as_mut().ok_or_else(|| Error::not_found("no such object"))?;
        self.changed = true;
        Ok(content)
    }

    /// The content to change. Creates the object if it does not exist.
    fn written(&mut self) -> &mut Content {
        self.changed = true;
        self.content.get_or_insert_default()
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        bounds::check_transaction_bytes(self.transaction_bytes + bytes)?;
        self.transaction_bytes += bytes;
        Ok(())
    }

    fn stream_len(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.stream.len() as u64)
    }
}

impl ObjectView for MemoryObject {
    fn exists(&mut self) -> Result<bool> {
        Ok(self.is_present())
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        let size = self.content()?.stream.len() as u64;
        Ok(ObjectStat { size, modified_micros: self.modified_micros, version: self.version })
    }

    fn version(&mut self) -> Result<u64> {
        Ok(self.version)
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        match self.content {
            Some(_) if exclusive => Err(Error::exists("the object already exists")),
            Some(_) => Ok(()),
            None => {
                self.written();
                Ok(())
            }
        }
    }

    fn remove(&mut self) -> Result<()> {
        self.existing()?;
        self.content = None;
        Ok(())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let stream = &self.content()?.stream;
        let start = offset.min(stream.len() as u64) as usize;
        let end = offset.saturating_add(length).min(stream.len() as u64) as usize;
        Ok(Bytes::copy_from_slice(&stream[start..end]))
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = bounds::check_stream_end(offset, data.len() as u64)? as usize;
        self.charge(data.len())?;
        let stream = Arc::make_mut(&mut self.written().stream);
        if stream.len() < end {
            stream.resize(end, 0);
        }
        stream[offset as usize..end].copy_from_slice(&data);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        bounds::check_stream_end(0, data.len() as u64)?;
        self.charge(data.len())?;
        self.written().stream = Arc::new(data.to_vec());
        Ok(())
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.stream_len();
        self.write(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        bounds::check_stream_end(size, 0)?;
        Arc::make_mut(&mut self.written().stream).resize(size as usize, 0);
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        let stream = Arc::make_mut(&mut self.existing()?.stream);
        let start = offset.min(stream.len() as u64) as usize;
        let end = offset.saturating_add(length).min(stream.len() as u64) as usize;
        stream[start..end].fill(0);
        Ok(())
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        bounds::check_attribute_name(name)?;
        Ok(self.content()?.attributes.get(name).cloned())
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        let attributes = &self.content()?.attributes;
        Ok(attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        bounds::check_attribute_name(name)?;
        bounds::check_attribute_value(&value)?;
        let has = |content: &Content| content.attributes.contains_key(name);
        if !self.content.as_ref().is_some_and(has) {
            let count = self.content.as_ref().map_or(0, |content| content.attributes.len());
            bounds::check_attribute_count(count + 1)?;
        }
        self.charge(name.len() + value.len())?;
        Arc::make_mut(&mut self.written().attributes).insert(name.to_owned(), value);
        Ok(())
    }

    fn remove_attribute(&mut self, name: &str) -> Result<()> {
        bounds::check_attribute_name(name)?;
        if !self.content()?.attributes.contains_key(name) {
            return Err(Error::not_found(format!("no attribute {name:?}")));
        }
        self.charge(name.len())?;
        Arc::make_mut(&mut self.existing()?.attributes).remove(name);
        Ok(())
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        bounds::check_map_key(key)?;
        Ok(self.content()?.map.get(key).cloned())
    }

    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        bounds::check_map_key(key)?;
        bounds::check_map_value(&value)?;
        self.charge(key.len() + value.len())?;
        Arc::make_mut(&mut self.written().map).insert(Bytes::copy_from_slice(key), value);
        Ok(())
    }

    fn map_remove(&mut self, key: &[u8]) -> Result<()> {
        bounds::check_map_key(key)?;
        self.content()?;
        self.charge(key.len())?;
        Arc::make_mut(&mut self.existing()?.map).remove(key);
        Ok(())
    }

    fn map_clear(&mut self) -> Result<()> {
        let content = self.existing()?;
        content.map = Arc::default();
        content.header = Bytes::new();
        Ok(())
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        bounds::check_map_range(after, prefix)?;
        let map = &self.content()?.map;
        let limit = limit.min(MAX_MAP_RANGE_ENTRIES);
        let mut range = MapRange::default();
        let mut bytes = 0;
        let start = if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let rest = map.range::<[u8], _>((start, Bound::Unbounded));
        for (key, value) in rest.take_while(|(key, _)| key.starts_with(prefix)) {
            bytes += key.len() + value.len();
            if range.entries.len() == limit || bytes > MAX_REPLY_BYTES {
                range.more = true;
                break;
            }
            range.entries.push(MapEntry { key: key.clone(), value: value.clone() });
        }
        Ok(range)
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        bounds::check_map_range(&[], prefix)?;
        let end = successor_of_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let map = &self.content()?.map;
        let last = map.range::<[u8], _>((Bound::Included(prefix), end)).next_back();
        Ok(last.map(|(key, value)| MapEntry { key: key.clone(), value: value.clone() }))
    }

    fn map_header(&mut self) -> Result<Bytes> {
        Ok(self.content()?.header.clone())
    }

    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        bounds::check_map_value(&value)?;
        self.charge(value.len())?;
        self.written().header = value;
        Ok(())
    }
}

/// The least key greater than every key with `prefix`; `None` if there is no such key.
fn successor_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl TransactionView for MemoryObject {
    fn snapshot_create(&mut self, snapshot: &SnapshotName) -> Result<()> {
        let content = self.content()?.clone();
        if self.snapshots.contains_key(snapshot) {
            return Err(Error::exists(format!("the object already has a snapshot {snapshot}")));
        }
        if self.snapshots.len() >= MAX_SNAPSHOTS {
            return Err(Error::exhausted(format!(
                "the object already has {MAX_SNAPSHOTS} snapshots, the most it can have"
            )));
        }
        let entries = content.map.len() + content.attributes.len();
        if entries > MAX_SNAPSHOT_ENTRIES {
            return Err(Error::exhausted(format!("a snapshot of {entries} entries is too large"))
                .hint(format!(
                    "take snapshots of objects with at most {MAX_SNAPSHOT_ENTRIES} entries"
                )));
        }
        let taken = Snapshot {
            content,
            version: self.version,
            modified_micros: self.modified_micros,
            of_this_transaction: self.changed,
        };
        self.snapshots.insert(snapshot.clone(), taken);
        Ok(())
    }

    fn snapshot_remove(&mut self, snapshot: &SnapshotName) -> Result<()> {
        self.find_snapshot(snapshot)?;
        self.snapshots.remove(snapshot);
        Ok(())
    }

    fn snapshots(&mut self) -> Result<Vec<SnapshotName>> {
        Ok(self.snapshots.keys().cloned().collect())
    }

    fn rollback(&mut self, snapshot: &SnapshotName) -> Result<()> {
        let content = self.find_snapshot(snapshot)?.content.clone();
        *self.written() = content;
        Ok(())
    }

    fn clone_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        if self.is_present() {
            return Err(Error::exists("the object already exists"));
        }
        let content = self.clone_source(source, snapshot)?.clone();
        *self.written() = content;
        Ok(())
    }

    fn write_full_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        let stream = self.clone_source(source, snapshot)?.stream.clone();
        self.written().stream = stream;
        Ok(())
    }
}
