//! An OSD in memory for tests: it behaves like the class API, as far as a class can notice.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{Error, Result};
use nacre_osd_class::{Change, OsdObject, OsdStat, StoredEntry, StoredRange};

/// The most entries in an answer of the OSD. They are few, so that tests reach the end of a page
/// everywhere.
const MAX_ENTRIES: usize = 5;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryOsd {
    pub exists: bool,
    pub version: u64,
    pub modified_micros: u64,
    pub data: Vec<u8>,
    pub attributes: BTreeMap<String, Bytes>,
    pub omap: BTreeMap<Bytes, Bytes>,
}

/// One call. It reads the state before the call, and its changes go to a copy.
pub struct MemoryCall<'a> {
    before: &'a MemoryOsd,
    pub after: MemoryOsd,
    /// The reads of the OSD, in order.
    pub looks: Vec<&'static str>,
    /// How many entries of the map, whenever some were asked for.
    pub pages: Vec<usize>,
}

impl MemoryOsd {
    pub fn begin(&self) -> MemoryCall<'_> {
        MemoryCall { before: self, after: self.clone(), looks: vec![], pages: vec![] }
    }
}

impl OsdObject for MemoryCall<'_> {
    fn stat(&mut self) -> Result<Option<OsdStat>> {
        self.looks.push("stat");
        let MemoryOsd { exists, modified_micros, data, .. } = self.before;
        let stat = OsdStat { size: data.len() as u64, modified_micros: *modified_micros };
        Ok(exists.then_some(stat))
    }

    fn version(&mut self) -> Result<u64> {
        self.looks.push("version");
        Ok(self.before.version)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.looks.push("read");
        assert!(length > 0);
        let data = &self.before.data;
        let start = data.len().min(offset as usize);
        let end = data.len().min((offset + length) as usize);
        Ok(Bytes::copy_from_slice(&data[start..end]))
    }

    fn attributes(&mut self) -> Result<Vec<StoredEntry>> {
        self.looks.push("attributes");
        let all = self.before.attributes.iter();
        Ok(all.map(|(name, value)| (name.clone().into(), value.clone())).collect())
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        self.looks.push("entry");
        Ok(self.before.omap.get(key).cloned())
    }

    fn range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<StoredRange> {
        self.looks.push("range");
        self.pages.push(limit);
        assert!(limit > 0);
        let start = if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let all = self.before.omap.range::<[u8], _>((start, Bound::Unbounded));
        let mut all = all.take_while(|(key, _)| key.starts_with(prefix));
        let page = all.by_ref().take(limit.min(MAX_ENTRIES));
        let entries = page.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(StoredRange { entries, more: all.next().is_some() })
    }

    fn apply(&mut self, change: Change) -> Result<()> {
        let MemoryOsd { exists, data, attributes, omap, .. } = &mut self.after;
        match change {
            Change::Create => *exists = true,
            Change::Remove => {
                (*exists, *data) = (false, vec![]);
                attributes.clear();
                omap.clear();
            }
            Change::SetEntries(entries) => {
                *exists = true;
                omap.extend(entries);
            }
            _ if !*exists => return Err(Error::not_found("the object is created first")),
            Change::WriteFull(new) => *data = new.to_vec(),
            Change::Write { offset, data: new } => {
                let end = offset as usize + new.len();
                data.resize(data.len().max(end), 0);
                data[offset as usize..end].copy_from_slice(&new);
            }
            Change::Zero { offset, length } => {
                assert!(((offset + length) as usize) < data.len(), "an OSD would cut");
                data[offset as usize..(offset + length) as usize].fill(0);
            }
            Change::Truncate(size) => {
                assert!(size < MAX_OBJECT_BYTES, "an OSD would refuse");
                data.resize(size as usize, 0);
            }
            Change::SetAttribute { name, value } => {
                attributes.insert(name, value);
            }
            Change::RemoveAttribute(name) => {
                attributes.remove(&name);
            }
            Change::ClearMap => omap.clear(),
            Change::RemoveEntry(key) => {
                omap.remove(&key);
            }
        }
        Ok(())
    }
}
