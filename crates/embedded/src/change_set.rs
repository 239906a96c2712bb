//! What one transaction does to the tables.

use std::collections::BTreeMap;

use crate::key::Key;
use crate::value::{NamedIn, PayloadAddress, Piece, Value};

/// Table entries over others: a value, or `None` where there is nothing any more.
pub(crate) type Overlay = BTreeMap<Key, Option<Value>>;

/// An owner's value no longer refers to a payload, or to less of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Release {
    pub owner: Key,
    pub address: PayloadAddress,
    /// Bytes it referred to.
    pub take: u32,
    /// Where the owner was named: a reference goes with what it names.
    pub named_in: NamedIn,
}

impl Release {
    /// `None` for a piece that never had a place: nothing counted it.
    pub fn of(owner: &Key, piece: &Piece) -> Option<Self> {
        let address = *piece.source.address()?;
        Some(Self { owner: owner.clone(), address, take: piece.take, named_in: piece.named_in })
    }
}

/// Entries put and deleted, and payloads let go: what a journal record says.
#[derive(Debug, Default)]
pub(crate) struct ChangeSet {
    pub entries: Overlay,
    /// Taken back before `entries` are counted, as an owner may go on using part of a payload.
    pub releases: Vec<Release>,
}

impl ChangeSet {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.releases.is_empty()
    }

    /// Has references name the owners of all pieces.
    pub fn name_by_references(&mut self) {
        self.pieces_mut().for_each(|piece| piece.named_in = NamedIn::Reference);
    }

    /// Every piece of a put value, in a fixed order.
    pub fn pieces_mut(&mut self) -> impl Iterator<Item = &mut Piece> {
        self.entries.values_mut().flatten().flat_map(|value| match value {
            Value::Inline(_) => [].iter_mut(),
            Value::Pieces(pieces) => pieces.iter_mut(),
        })
    }
}
