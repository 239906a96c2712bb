//! Frees space, by small transactions that a shard runs for the upkeep thread. They delete the
//! entries of removed streams and maps. They also move the payloads that are still in use out of
//! journal segments that are mostly unused.

use bytes::Bytes;
use nacre_object::Result;
use tokio::sync::oneshot;

use crate::entry::key::{self, Key, NodeId};
use crate::entry::layers::Direction;
use crate::entry::value::{Piece, Value};
use crate::transaction::change_set::{ChangeSet, Release};
use crate::transaction::commit::{PendingReply, PendingUpkeepReply};
use crate::transaction::shard::{BatchTables, Shard};

/// Entries deleted by one transaction. It takes some milliseconds, so that requests wait no longer.
const RECLAIM_ENTRIES: usize = 512;

impl Shard {
    /// Deletes some entries of a dropped node. Replies whether all of them are gone.
    pub(crate) fn reclaim(
        &mut self,
        batch: &BatchTables,
        node: NodeId,
        reply: oneshot::Sender<Result<bool>>,
    ) {
        let (changes, is_gone) = match self.emptied(batch, node) {
            Ok(emptied) => emptied,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let held = PendingReply::Upkeep(PendingUpkeepReply::Reclaimed { reply, is_gone });
        if let Err((error, PendingReply::Upkeep(held))) =
            self.append(batch, changes, self.next_node(), held)
        {
            held.answer(&Err(error));
        }
    }

    /// Returns deletions of some of a node's entries, and whether these are the last ones.
    fn emptied(&self, batch: &BatchTables, node: NodeId) -> Result<(ChangeSet, bool)> {
        let entries: Vec<(Key, Value)> = self
            .layers(batch)
            .scan_prefix(&key::node_prefix(node), Direction::Forward)
            .take(RECLAIM_ENTRIES)
            .collect::<Result<_>>()?;
        let is_last = entries.len() < RECLAIM_ENTRIES;
        let mut changes = ChangeSet::default();
        for (key, value) in entries {
            let released = value.pieces().iter().filter_map(|piece| Release::of(&key, piece));
            changes.releases.extend(released);
            changes.entries.insert(key, None);
        }
        if is_last {
            changes.entries.insert(key::garbage(node), None);
        }
        Ok((changes, is_last))
    }

    /// Copies the payloads that the table entries `owners` have in `segment` to the end of the
    /// journal. Replies with the number of bytes moved.
    ///
    /// An owner that no longer refers to the segment is skipped. Owners of one payload still share
    /// it afterwards if they are passed in the same call.
    pub(crate) fn relocate(
        &mut self,
        batch: &BatchTables,
        segment: u32,
        owners: &[Key],
        reply: oneshot::Sender<Result<u64>>,
    ) {
        let (changes, bytes) = match self.moved(batch, segment, owners) {
            Ok(moved) => moved,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let held = PendingReply::Upkeep(PendingUpkeepReply::Relocated { reply, bytes });
        match self.append(batch, changes, self.next_node(), held) {
            Err((error, PendingReply::Upkeep(held))) => held.answer(&Err(error)),
            _ => self.core.counters.relocated_bytes.add(bytes),
        }
    }

    /// Copies the payloads that `owners` have in `segment`. Returns the changes, and the number of
    /// bytes copied.
    fn moved(&self, batch: &BatchTables, segment: u32, owners: &[Key]) -> Result<(ChangeSet, u64)> {
        let mut changes = ChangeSet::default();
        let mut moved: Vec<(Piece, Bytes)> = Vec::new();
        for owner in owners {
            // `owners` has an owner once for each of its pieces; the first time handles all of
            // them.
            if changes.entries.contains_key(owner) {
                continue;
            }
            let Some(Value::Pieces(mut pieces)) = self.layers(batch).get(owner)? else { continue };
            let mut is_moved = false;
            for piece in &mut pieces {
                if piece.source.address().is_some_and(|address| address.segment == segment) {
                    changes.releases.extend(Release::of(owner, piece));
                    *piece = Piece::fresh(self.copy_of(piece, &mut moved)?);
                    is_moved = true;
                }
            }
            if is_moved {
                changes.entries.insert(owner.clone(), Some(Value::Pieces(pieces)));
            }
        }
        let bytes = moved.iter().map(|(_, data)| data.len() as u64).sum();
        Ok((changes, bytes))
    }

    /// Returns the bytes of a piece. For an equal piece it returns the same buffer again, so that
    /// the owners go on sharing one payload.
    fn copy_of(&self, piece: &Piece, moved: &mut Vec<(Piece, Bytes)>) -> Result<Bytes> {
        let same = |other: &Piece| {
            other.source.address() == piece.source.address()
                && (other.skip, other.take) == (piece.skip, piece.take)
        };
        if let Some((_, data)) = moved.iter().find(|(other, _)| same(other)) {
            return Ok(data.clone());
        }
        let data = self.core.segments.read_pieces(std::slice::from_ref(piece))?;
        moved.push((piece.clone(), data.clone()));
        Ok(data)
    }
}
