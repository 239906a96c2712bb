//! The parts of a commit that wait for a sync: replies to send, and changes to write to the tables.

use std::sync::Arc;

use nacre_object::{Error, ObjectId, Reply, Result};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::journal::record::RecordId;
use crate::journal::segment_table::RecordPin;
use crate::transaction::change_set::ChangeSet;
use crate::transaction::trail::Trail;

/// Where the reply to a request goes.
#[derive(Debug)]
pub(crate) struct Answer {
    pub to: oneshot::Sender<Result<Reply>>,
    /// The request's share of the queue. It is released with the reply.
    pub _permit: OwnedSemaphorePermit,
    pub trail: Trail,
}

impl Answer {
    pub fn send(self, result: Result<Reply>) {
        // The client may have gone; the transaction stands all the same.
        let _ = self.to.send(result);
    }
}

/// A reply that waits until something is synced, or until it is in the tables.
#[derive(Debug)]
pub(crate) enum PendingReply {
    Reply { answer: Answer, reply: Reply, object: ObjectId, is_changed: bool },
    Failure { answer: Answer, error: Error },
    Upkeep(PendingUpkeepReply),
}

impl PendingReply {
    /// The object that may have changed.
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::Reply { object, .. } => Some(object),
            Self::Failure { .. } | Self::Upkeep(_) => None,
        }
    }
}

/// A reply to the upkeep thread. It waits until the changes are in the tables, because the upkeep
/// thread reads the tables next.
#[derive(Debug)]
pub(crate) enum PendingUpkeepReply {
    Reclaimed { reply: oneshot::Sender<Result<bool>>, is_gone: bool },
    Relocated { reply: oneshot::Sender<Result<u64>>, bytes: u64 },
}

impl PendingUpkeepReply {
    pub fn answer(self, applied: &Result<()>) {
        // Upkeep may have stopped.
        match self {
            Self::Reclaimed { reply, is_gone } => {
                let _ = reply.send(applied.clone().map(|()| is_gone));
            }
            Self::Relocated { reply, bytes } => {
                let _ = reply.send(applied.clone().map(|()| bytes));
            }
        }
    }
}

/// What a record of the journal does to the tables.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub id: RecordId,
    pub changes: Arc<ChangeSet>,
    /// Taken before the snapshot that the transaction saw.
    pub pin: RecordPin,
}

/// Changes and replies that wait for one sync.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    /// In the order of their records.
    pub recorded: Vec<Recorded>,
    pub held: Vec<PendingReply>,
}

impl Commit {
    pub fn is_empty(&self) -> bool {
        self.recorded.is_empty() && self.held.is_empty()
    }
}
