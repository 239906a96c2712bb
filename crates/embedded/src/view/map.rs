//! The sorted key–value map, one table entry a key, and its header.

use std::ops::Bound;

use bytes::Bytes;
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES};
use nacre_object::{MapEntry, MapRange, Result, bounds};

use super::Transaction;
use crate::entry::key::{self, Key, NodeId, after_prefix};
use crate::entry::layers::Direction;
use crate::entry::value::Value;

impl Transaction<'_> {
    pub(super) fn get_entry(&self, key: &[u8]) -> Result<Option<Bytes>> {
        bounds::check_map_key(key)?;
        let Some(node) = self.existing()?.map else { return Ok(None) };
        let value = self.layers.get(&key::map_entry(node, key))?;
        value.map(|value| self.load(&value)).transpose()
    }

    pub(super) fn put_entry(&mut self, key: &[u8], value: Bytes) -> Result<()> {
        bounds::check_map_key(key)?;
        bounds::check_map_value(&value)?;
        self.charge(key.len() + value.len())?;
        let key = key::map_entry(self.map_node()?, key);
        self.forget_payloads(&key)?;
        let value = Value::of(value);
        self.changing()?.payload_values += u64::from(!value.pieces().is_empty());
        self.layers.put(key, value);
        Ok(())
    }

    pub(super) fn delete_entry(&mut self, key: &[u8]) -> Result<()> {
        bounds::check_map_key(key)?;
        self.existing()?;
        self.charge(key.len())?;
        let Some(node) = self.changing()?.map else { return Ok(()) };
        let key = key::map_entry(node, key);
        self.forget_payloads(&key)?;
        self.layers.delete(key);
        Ok(())
    }

    /// The node of the map, which is made if there is none.
    fn map_node(&mut self) -> Result<NodeId> {
        if let Some(node) = self.writing()?.map {
            return Ok(node);
        }
        let node = self.new_node();
        self.writing()?.map = Some(node);
        Ok(node)
    }

    /// Releases the payloads of the entry that is about to be replaced or deleted.
    fn forget_payloads(&mut self, key: &Key) -> Result<()> {
        if self.existing()?.payload_values == 0 {
            return Ok(());
        }
        if let Some(old) = self.layers.get(key)?
            && !old.pieces().is_empty()
        {
            self.release(key, old.pieces());
            self.changing()?.payload_values -= 1;
        }
        Ok(())
    }

    pub(super) fn clear_map(&mut self) -> Result<()> {
        let content = self.changing()?;
        content.payload_values = 0;
        if let Some(node) = content.map.take() {
            self.drop_node(node)?;
        }
        Ok(())
    }

    pub(super) fn range_of_map(
        &self,
        after: &[u8],
        prefix: &[u8],
        limit: usize,
    ) -> Result<MapRange> {
        bounds::check_map_range(after, prefix)?;
        let mut range = MapRange::default();
        let Some(node) = self.existing()?.map else { return Ok(range) };
        let limit = limit.min(MAX_MAP_RANGE_ENTRIES);
        let (from, past) = (key::map_entry(node, after), key::map_entry(node, prefix));
        let start = if prefix > after { Bound::Included(&*past) } else { Bound::Excluded(&*from) };
        let end = after_prefix(&past).expect("a kind of entry follows that of the map");
        if *from >= *end {
            return Ok(range);
        }
        let mut bytes = 0;
        for entry in self.layers.scan((start, Bound::Excluded(&end)), Direction::Forward) {
            let (key, value) = entry?;
            let key = Bytes::copy_from_slice(key::suffix(&key));
            bytes += key.len() + value.len() as usize;
            if range.entries.len() == limit || bytes > MAX_REPLY_BYTES {
                range.more = true;
                break;
            }
            range.entries.push(MapEntry { key, value: self.load(&value)? });
        }
        Ok(range)
    }

    pub(super) fn last_entry(&self, prefix: &[u8]) -> Result<Option<MapEntry>> {
        bounds::check_map_range(&[], prefix)?;
        let Some(node) = self.existing()?.map else { return Ok(None) };
        let prefix = key::map_entry(node, prefix);
        let Some(last) = self.layers.scan_prefix(&prefix, Direction::Backward).next() else {
            return Ok(None);
        };
        let (key, value) = last?;
        let key = Bytes::copy_from_slice(key::suffix(&key));
        Ok(Some(MapEntry { key, value: self.load(&value)? }))
    }

    pub(super) fn get_map_header(&self) -> Result<Bytes> {
        let Some(node) = self.existing()?.map else { return Ok(Bytes::new()) };
        let value = self.layers.get(&key::map_header(node))?;
        value.map_or_else(|| Ok(Bytes::new()), |value| self.load(&value))
    }

    pub(super) fn put_map_header(&mut self, value: Bytes) -> Result<()> {
        bounds::check_map_value(&value)?;
        self.charge(value.len())?;
        let key = Key::from(key::map_header(self.map_node()?));
        if let Some(old) = self.layers.get(&key)? {
            self.release(&key, old.pieces());
        }
        self.layers.put(key, Value::of(value));
        Ok(())
    }
}
