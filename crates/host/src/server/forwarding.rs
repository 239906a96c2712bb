//! Forwards questions about a machine that this node handed over in proxy mode
//! ([`ClientRouting::Forward`]).
//!
//! The former authority remembers, in memory, which node took over, and the epoch of the record
//! that names this node. While it does not serve the machine itself, it asks that node and returns
//! its answer.
//!
//! 1. The former authority forwards a question under the epoch of the record that names the
//!    successor. The successor checks it like any other question, and refuses an epoch under which
//!    it does not serve.
//! 2. If the question knows a later record, or the successor refuses, the former authority reads
//!    the record. Then it forwards the question to the node that the record names.
//! 3. If the successor does not answer, the former authority forgets it, and the client uses the
//!    record as usual. The same happens after a restart of the former authority.
//!
//! **Invariant:** a question visits no node twice. It is forwarded under the epoch of a record that
//! names the next node. That node forwards it only under a later record, so epochs rise from node
//! to node.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{ErrorKind, NodeName, Result};

use super::hosting::{Hosting, NameOf};
use super::slot::Slot;
use super::{BUSY_AFTER, Host};
use crate::outcome::is_busy;
use crate::record::{Record, deposed};
use crate::records::stored;

/// How long the node that gets a forwarded question may take to answer. That node reports after
/// [`BUSY_AFTER`] that it has no answer yet, so it has time to do so. Clients wait two seconds,
/// which is longer.
pub const FORWARD_PATIENCE: Duration = Duration::from_millis(1500);
const _: () = assert!(BUSY_AFTER.as_millis() < FORWARD_PATIENCE.as_millis());

/// To how many nodes one question is forwarded at most, one after another. The first is the known
/// successor; the second is the node that the stored record names.
const MAX_FORWARDS: usize = 2;

/// How clients reach a machine that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRouting {
    /// They are told to read the record, and go to the successor.
    Redirect,
    /// The former authority passes their questions on.
    Forward,
}

/// The node that serves a machine which this node handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// The node.
    pub node: NodeName,
    /// The epoch of a record that names it.
    pub epoch: u64,
}

impl Forward {
    pub(super) fn by<R: Record>(record: &R) -> Option<Self> {
        let node = record.authority()?.node.clone();
        Some(Self { node, epoch: record.epoch() })
    }
}

impl<K: Hosting> Host<K> {
    /// Questions that were passed on to other nodes.
    pub fn forwards(&self) -> u64 {
        self.forward_count().get()
    }

    /// Whether questions about a machine are passed on.
    pub fn is_forwarding(&self, name: &str) -> bool {
        self.known_slot(name).is_some_and(|slot| slot.forward().is_some())
    }

    /// Answers a question with `here`, or forwards it if this node handed the machine over in proxy
    /// mode. `epoch` is the epoch of the client's record. `there` sends the question to the other
    /// node, under the epoch of the [`Forward`].
    ///
    /// # Errors
    /// Those of `here` and of `there`; `Stale` if the client must read the record.
    pub async fn answer_or_forward<Asked>(
        &self,
        name: &NameOf<K>,
        epoch: u64,
        here: impl Future<Output = Result<Bytes>>,
        there: impl Fn(Forward) -> Asked,
    ) -> Result<Bytes>
    where
        Asked: Future<Output = Result<Bytes>>,
    {
        let slot = self.slot(name)?;
        if slot.forward().is_none() {
            match here.await {
                // It was handed over while the question waited.
                Err(error) if error.kind() == ErrorKind::Stale && slot.forward().is_some() => {}
                answered => return answered,
            }
        }
        let mut least_epoch = epoch;
        for _ in 0..MAX_FORWARDS {
            let found = self.forward_of(name, &slot, least_epoch).await?;
            let forward = found.ok_or_else(deposed::<K::Record>)?;
            self.forward_count().add(1);
            match there(forward.clone()).await {
                Err(error) if error.kind() == ErrorKind::Stale => least_epoch = forward.epoch + 1,
                Err(error) if error.kind() == ErrorKind::Unavailable && !is_busy(&error) => {
                    slot.set_forward(None);
                    return Err(error);
                }
                answered => return answered,
            }
        }
        Err(deposed::<K::Record>())
    }

    /// Finds the node to forward to, from a record of `least_epoch` or later. Reads the stored
    /// record if the record known so far is older.
    async fn forward_of(
        &self,
        name: &NameOf<K>,
        slot: &Slot<K>,
        least_epoch: u64,
    ) -> Result<Option<Forward>> {
        match slot.forward() {
            Some(forward) if forward.epoch < least_epoch => {}
            known => return Ok(known),
        }
        let record = stored(self.kind().records(), name).await?;
        let found = Forward::by(&record)
            .filter(|forward| forward.epoch >= least_epoch && forward.node != *self.node());
        slot.set_forward(found.clone());
        Ok(found)
    }
}

impl<K: Hosting> Slot<K> {
    /// Where questions are passed on to; `None` while the machine serves here.
    fn forward(&self) -> Option<Forward> {
        if self.machine().is_some() {
            return None;
        }
        self.forward.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_forward(&self, forward: Option<Forward>) {
        *self.forward.lock().unwrap_or_else(PoisonError::into_inner) = forward;
    }
}
