//! What one transaction does to the tables.

use std::collections::BTreeMap;

use crate::entry::key::{Key, is_head};
use crate::entry::value::{NamedIn, PayloadAddress, Piece, Value};

/// Entries that replace those of the tables: a value, or `None` if the entry was deleted.
pub(crate) type Overlay = BTreeMap<Key, Option<Value>>;

/// Records that a table entry (the owner) no longer refers to a payload, or refers to less of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub owner: Key,
    pub address: PayloadAddress,
    /// Bytes it referred to.
    pub take: u32,
    /// Where the owner is recorded. If that is a reference, the release deletes it.
    pub named_in: NamedIn,
}

impl Release {
    /// `None` for a piece that is not in the journal yet, because nothing has counted it.
    pub fn of(owner: &Key, piece: &Piece) -> Option<Self> {
        let address = *piece.source.address()?;
        Some(Self { owner: owner.clone(), address, take: piece.take, named_in: piece.named_in })
    }
}

/// Entries put and deleted, and payloads let go: what a journal record says.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    pub entries: Overlay,
    /// The payloads that owners (table entries) release. They are counted before `entries`: an
    /// owner that keeps part of a payload first releases all of it, then adds the part again.
    pub releases: Vec<Release>,
}

impl ChangeSet {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.releases.is_empty()
    }

    /// Estimates by how many bytes the store grows; negative if it shrinks. Old values are not
    /// looked up. So a deleted entry counts as a few bytes, and an old payload counts only if
    /// `releases` has it.
    pub fn growth_bytes(&self) -> i64 {
        const DELETED_BYTES: i64 = 64;
        let entries = self.entries.iter().filter(|(key, _)| !is_head(key));
        let grown = entries.map(|(key, value)| match value {
            Some(value) => key.len() as i64 + value.len() as i64,
            None => -(key.len() as i64 + DELETED_BYTES),
        });
        let released = self.releases.iter().map(|release| i64::from(release.take));
        grown.sum::<i64>() - released.sum::<i64>()
    }

    /// Every piece of a put value, in a fixed order.
    pub fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece> {
        self.entries.values_mut().flatten().flat_map(|value| match value {
            Value::Inline(_) => [].iter_mut(),
            Value::Pieces(pieces) => pieces.iter_mut(),
        })
    }
}
