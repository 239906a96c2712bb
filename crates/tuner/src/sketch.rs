//! An object in memory that records the accesses to it.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use nacre_object::{Error, MapEntry, MapRange, ObjectStat, ObjectView, Result};

use crate::shape::{Access, Shape};

/// The longest stream. A layout with fixed offsets may store data far from the start.
const MAX_STREAM_BYTES: u64 = 256 * 1024 * 1024;

/// An object in memory that records the accesses of the running transaction.
///
/// It limits the length of the stream, but not the map and the attributes. It does not undo a
/// failed transaction, because the classes that run on it fail before they write.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    exists: bool,
    stream: Vec<u8>,
    map: BTreeMap<Bytes, Bytes>,
    header: Bytes,
    attributes: BTreeMap<String, Bytes>,
    shape: Shape,
}

impl Sketch {
    /// The accesses since the last call.
    pub fn take_shape(&mut self) -> Shape {
        std::mem::take(&mut self.shape)
    }

    fn note(&mut self, access: Access, bytes: usize) {
        self.shape.touches.push((access, bytes));
    }

    fn must_exist(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(Error::not_found("no such object")) }
    }

    fn part(&self, offset: u64, length: u64) -> &[u8] {
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.stream.len());
        &self.stream[clamp(offset)..clamp(offset.saturating_add(length))]
    }
}

impl ObjectView for Sketch {
    fn exists(&mut self) -> Result<bool> {
        self.note(Access::Stat, 0);
        Ok(self.exists)
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        self.note(Access::Stat, 0);
        self.must_exist()?;
        Ok(ObjectStat { size: self.stream.len() as u64, modified_micros: 0, version: 1 })
    }

    fn version(&mut self) -> Result<u64> {
        self.note(Access::Stat, 0);
        Ok(1)
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if self.exists && exclusive {
            return Err(Error::exists("the object already exists"));
        }
        self.exists = true;
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.must_exist()?;
        *self = Self { shape: self.take_shape(), ..Self::default() };
        Ok(())
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.must_exist()?;
        let data = Bytes::copy_from_slice(self.part(offset, length));
        self.note(Access::StreamRead, data.len());
        Ok(data)
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        if end > MAX_STREAM_BYTES {
            return Err(Error::exhausted(format!("a stream of {end} bytes is too long")));
        }
        let access = match end > self.stream.len() as u64 {
            true => Access::StreamAppend,
            false => Access::StreamWrite,
        };
        self.note(access, data.len());
        self.exists = true;
        self.stream.resize(self.stream.len().max(end as usize), 0);
        self.stream[offset as usize..end as usize].copy_from_slice(&data);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.note(Access::StreamWrite, data.len());
        self.exists = true;
        self.stream = data.to_vec();
        Ok(())
    }

    fn append(&mut self, data: Bytes) -> Result<u64> {
        let offset = self.stream.len() as u64;
        self.write(offset, data)?;
        Ok(offset)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        if size > MAX_STREAM_BYTES {
            return Err(Error::exhausted(format!("a stream of {size} bytes is too long")));
        }
        self.note(Access::StreamWrite, 0);
        self.exists = true;
        self.stream.resize(size as usize, 0);
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<()> {
        self.must_exist()?;
        self.note(Access::StreamWrite, 0);
        let length = self.part(offset, length).len();
        let start = (offset as usize).min(self.stream.len());
        self.stream[start..start + length].fill(0);
        Ok(())
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        self.must_exist()?;
        let value = self.attributes.get(name).cloned();
        self.note(Access::AttributeGet, value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        self.must_exist()?;
        let all: Vec<_> = self.attributes.clone().into_iter().collect();
        self.note(Access::AttributeGet, all.iter().map(|(_, value)| value.len()).sum());
        Ok(all)
    }

    fn set_attribute(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.note(Access::AttributeSet, value.len());
        self.exists = true;
        self.attributes.insert(name.to_owned(), value);
        Ok(())
    }

    fn remove_attribute(&mut self, name: &str) -> Result<()> {
        self.must_exist()?;
        self.note(Access::AttributeSet, 0);
        match self.attributes.remove(name) {
            Some(_) => Ok(()),
            None => Err(Error::not_found(format!("the object has no attribute {name:?}"))),
        }
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        self.must_exist()?;
        let value = self.map.get(key).cloned();
        self.note(Access::MapGet, value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    fn map_set(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        self.note(Access::MapSet, value.len());
        self.exists = true;
        self.map.insert(Bytes::copy_from_slice(key), value);
        Ok(())
    }

    fn map_remove(&mut self, key: &[u8]) -> Result<()> {
        self.must_exist()?;
        self.note(Access::MapRemove, 0);
        self.map.remove(key);
        Ok(())
    }

    fn map_clear(&mut self) -> Result<()> {
        self.must_exist()?;
        self.note(Access::MapRemove, 0);
        self.map.clear();
        self.header = Bytes::new();
        Ok(())
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        self.must_exist()?;
        let start = if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let all = self.map.range::<[u8], _>((start, Bound::Unbounded));
        let mut all = all.take_while(|(key, _)| key.starts_with(prefix));
        let page = all.by_ref().take(limit);
        let entry =
            |(key, value): (&Bytes, &Bytes)| MapEntry { key: key.clone(), value: value.clone() };
        let entries: Vec<_> = page.map(entry).collect();
        let more = all.next().is_some();
        let bytes = entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
        self.note(Access::MapRange, bytes);
        Ok(MapRange { entries, more })
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        let all = self.map_range(&[], prefix, usize::MAX)?;
        self.shape.touches.pop();
        let last = all.entries.into_iter().next_back();
        self.note(Access::MapGet, last.as_ref().map_or(0, |entry| entry.value.len()));
        Ok(last)
    }

    fn map_header(&mut self) -> Result<Bytes> {
        self.must_exist()?;
        self.note(Access::MapGet, self.header.len());
        Ok(self.header.clone())
    }

    fn set_map_header(&mut self, value: Bytes) -> Result<()> {
        self.note(Access::MapSet, value.len());
        self.exists = true;
        self.header = value;
        Ok(())
    }
}
