//! Whole nodes: dropping them, and copying them for snapshots and clones.

use bytes::Bytes;
use nacre_object::limits::{MAX_SNAPSHOT_ENTRIES, MAX_TRANSACTION_BYTES};
use nacre_object::{Error, Result};

use super::Transaction;
use crate::entry::head::Content;
use crate::entry::key::{self, Key, NodeId};
use crate::entry::layers::Direction;
use crate::entry::value::{Piece, Value};

/// The entries of a removed stream, map or set of attributes are deleted at once if there are at
/// most this many. If there are more, the upkeep thread deletes them later, so that removing an
/// object takes the same time however large it is.
const MAX_ENTRIES_DROPPED_AT_ONCE: usize = 16;

/// The result of dropping a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dropped {
    /// It is empty and may be used again.
    Emptied,
    /// Its entries remain until the upkeep thread has deleted them.
    Abandoned,
}

impl Transaction<'_> {
    /// Drops every entry of a node of this object.
    pub(super) fn drop_node(&mut self, node: NodeId) -> Result<Dropped> {
        let entries: Vec<(Key, Value)> = self
            .layers
            .scan_prefix(&key::node_prefix(node), Direction::Forward)
            .take(MAX_ENTRIES_DROPPED_AT_ONCE + 1)
            .collect::<Result<_>>()?;
        if entries.len() > MAX_ENTRIES_DROPPED_AT_ONCE {
            self.layers.put(key::garbage(node), Value::Inline(Bytes::new()));
            return Ok(Dropped::Abandoned);
        }
        for (key, value) in entries {
            self.release(&key, value.pieces());
            self.layers.delete(key);
        }
        Ok(Dropped::Emptied)
    }

    /// A copy of `content` in nodes of its own; payloads are shared.
    pub(super) fn copy_content(&mut self, content: &Content) -> Result<Content> {
        let map = self.copy_node(content.map)?;
        let attributes = self.copy_node(content.attributes)?;
        let stream = self.copy_stream(content)?;
        Ok(Content { stream, map, attributes, tail_slots: 0, ..content.clone() })
    }

    fn copy_node(&mut self, from: Option<NodeId>) -> Result<Option<NodeId>> {
        let Some(from) = from else { return Ok(None) };
        let to = self.new_node();
        let prefix = key::node_prefix(from);
        let entries = self.copied.take(self.layers.scan_prefix(&prefix, Direction::Forward))?;
        for (key, value) in entries {
            self.layers.put(key::moved_to(&key, to), value);
        }
        Ok(Some(to))
    }

    /// Copies a stream into a new node. Returns `None` if the stream needs no node.
    pub(super) fn copy_stream(&mut self, content: &Content) -> Result<Option<NodeId>> {
        let Some(from) = content.stream.filter(|_| content.whole.is_none()) else {
            return Ok(None);
        };
        let to = self.new_node();
        let prefix = key::extent_prefix(from);
        let extents = self.copied.take(self.layers.scan_prefix(&prefix, Direction::Forward))?;
        for (key, value) in extents {
            self.layers.put(key::moved_to(&key, to), value);
        }
        if content.tail_slots > 0 {
            let tail = self.read_tail(content)?;
            let bytes = tail.len();
            let count = self.put_extents(to, content.tail_start, tail);
            self.copied.count(count, bytes)?;
        }
        Ok(Some(to))
    }
}

/// Bounds the entries that the snapshots, rollbacks and clones of one transaction copy. Memory
/// holds all copies, and they become one journal record.
#[derive(Debug, Default)]
pub(super) struct CopyBudget {
    entries: usize,
    bytes: usize,
}

impl CopyBudget {
    fn take(
        &mut self,
        entries: impl Iterator<Item = Result<(Key, Value)>>,
    ) -> Result<Vec<(Key, Value)>> {
        let mut taken = Vec::new();
        for entry in entries {
            let (key, value) = entry?;
            let held = match &value {
                Value::Inline(data) => data.len(),
                Value::Pieces(pieces) => pieces.len() * size_of::<Piece>(),
            };
            self.count(1, key.len() + held)?;
            taken.push((key, value));
        }
        Ok(taken)
    }

    fn count(&mut self, entries: usize, bytes: usize) -> Result<()> {
        self.entries += entries;
        self.bytes += bytes;
        if self.entries > MAX_SNAPSHOT_ENTRIES {
            return Err(Error::exhausted("the transaction copies too many entries of snapshots")
                .hint(format!("copy at most {MAX_SNAPSHOT_ENTRIES} entries in one transaction")));
        }
        if self.bytes > MAX_TRANSACTION_BYTES {
            return Err(Error::exhausted(
                "the transaction copies too many small values of snapshots",
            )
            .hint(format!(
                "copy at most {MAX_TRANSACTION_BYTES} bytes of them in one transaction"
            )));
        }
        Ok(())
    }
}
