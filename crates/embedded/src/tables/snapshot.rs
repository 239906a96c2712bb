//! `TableSnapshot`: a consistent view of the tables, which the engine reads from.

use std::ops::Bound;
use std::sync::Arc;

use lsm_tree::{AbstractTree, Guard, Slice};
use nacre_object::Result;

use super::Shared;
use super::open_snapshots::SnapshotNumber;
use crate::entry::key::{Key, after_prefix};
use crate::entry::value::Value;
use crate::errors;

/// A consistent view of the tables.
pub(crate) struct TableSnapshot {
    pub(super) number: Arc<SnapshotNumber>,
    pub(super) shared: Arc<Shared>,
}

impl TableSnapshot {
    /// # Errors
    /// `Corrupt` if the entry, or the table it is in, is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let stored = self.shared.tree.get(key, self.number.0);
        let stored = stored.map_err(|error| errors::tables(&error))?;
        stored.map(|stored| Value::decode(key, &stored)).transpose()
    }

    /// Like [`TableSnapshot::get`], through the row cache.
    ///
    /// # Errors
    /// As [`TableSnapshot::get`].
    pub fn get_row(&self, key: &[u8]) -> Result<Option<Value>> {
        let (rows, number) = (&self.shared.rows, self.number.0);
        if let Some(value) = rows.get(key, number) {
            return Ok(Some(value));
        }
        let value = self.get(key)?;
        if let Some(value) = &value {
            rows.remember(key, value, number);
        }
        Ok(value)
    }

    /// Entries whose keys start with `prefix`, from either end.
    pub fn prefix(
        &self,
        prefix: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Value)>> + use<> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range((Bound::Included(prefix), end))
    }

    /// Entries in a range of keys, from either end.
    pub fn range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Value)>> + use<> {
        self.stored_range(range).map(|entry| {
            let (key, stored) = entry?;
            let value = Value::decode(&key, &stored)?;
            Ok((key, value))
        })
    }

    /// Entries in a range of keys as they are stored, unchecked.
    pub fn stored_range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Slice)>> + use<> {
        let entries = self.shared.tree.range::<&[u8], _>(range, self.number.0, None);
        entries.map(|entry| entry.into_inner().map_err(|error| errors::tables(&error)))
    }
}
