//! A view that refuses to change its object.

use bytes::Bytes;

use crate::{Error, MapEntry, MapRange, ObjectStat, ObjectView, Result};

/// The view that a method declared read-only is given. Reads go through; every write is `Denied`.
pub struct ReadOnlyView<'a>(&'a mut dyn ObjectView);

impl<'a> ReadOnlyView<'a> {
    /// Protects `view`.
    pub fn new(view: &'a mut dyn ObjectView) -> Self {
        Self(view)
    }
}

fn denied<T>() -> Result<T> {
    Err(Error::denied("a read-only method must not write"))
}

impl ObjectView for ReadOnlyView<'_> {
    fn exists(&mut self) -> Result<bool> {
        self.0.exists()
    }

    fn stat(&mut self) -> Result<ObjectStat> {
        self.0.stat()
    }

    fn version(&mut self) -> Result<u64> {
        self.0.version()
    }

    fn create(&mut self, _: bool) -> Result<()> {
        denied()
    }

    fn remove(&mut self) -> Result<()> {
        denied()
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.0.read(offset, length)
    }

    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        denied()
    }

    fn write_full(&mut self, _: Bytes) -> Result<()> {
        denied()
    }

    fn append(&mut self, _: Bytes) -> Result<u64> {
        denied()
    }

    fn truncate(&mut self, _: u64) -> Result<()> {
        denied()
    }

    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        denied()
    }

    fn attribute(&mut self, name: &str) -> Result<Option<Bytes>> {
        self.0.attribute(name)
    }

    fn attributes(&mut self) -> Result<Vec<(String, Bytes)>> {
        self.0.attributes()
    }

    fn set_attribute(&mut self, _: &str, _: Bytes) -> Result<()> {
        denied()
    }

    fn remove_attribute(&mut self, _: &str) -> Result<()> {
        denied()
    }

    fn map_get(&mut self, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.map_get(key)
    }

    fn map_set(&mut self, _: &[u8], _: Bytes) -> Result<()> {
        denied()
    }

    fn map_remove(&mut self, _: &[u8]) -> Result<()> {
        denied()
    }

    fn map_clear(&mut self) -> Result<()> {
        denied()
    }

    fn map_range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<MapRange> {
        self.0.map_range(after, prefix, limit)
    }

    fn map_last(&mut self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        self.0.map_last(prefix)
    }

    fn map_header(&mut self) -> Result<Bytes> {
        self.0.map_header()
    }

    fn set_map_header(&mut self, _: Bytes) -> Result<()> {
        denied()
    }
}
