//! Forwards requests for a state machine that this node has handed over in proxy mode
//! ([`ClientRouting::Forward`]).
//!
//! The former authority remembers in memory which node took over (its *successor*), and the epoch
//! of the record that names the successor. While the former authority does not serve the machine
//! itself, it sends requests to the successor and returns the answers.
//!
//! 1. The former authority forwards a request under the epoch of the record that names the
//!    successor. The successor checks that epoch as for any other request.
//! 2. The former authority reads the record if the request knows a later one, or if the successor
//!    refuses. Then it forwards the request to the node that the record names.
//! 3. If the successor does not answer, the former authority forgets it, and the client uses the
//!    record as usual. A restart of the former authority has the same effect.
//!
//! **Invariant:** a request visits no node twice. It carries the epoch of a record that names the
//! next node. That node forwards it only under a later record, so epochs rise from node to node.

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

/// How long the former authority waits for the successor's answer to a forwarded request. It is
/// longer than [`BUSY_AFTER`], after which a live successor replies that it has no answer yet. It
/// is shorter than the two seconds that clients wait.
pub const FORWARD_PATIENCE: Duration = Duration::from_millis(1500);
const _: () = assert!(BUSY_AFTER.as_millis() < FORWARD_PATIENCE.as_millis());

/// To how many nodes a former authority forwards one request, one after another. The first is the
/// known successor; the second is the node that the stored record names.
const MAX_FORWARDS: usize = 2;

/// How clients reach a machine that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRouting {
    /// The former authority tells clients to read the record, which names the successor.
    Redirect,
    /// The former authority forwards clients' requests to the successor.
    Forward,
}

/// The node that serves a state machine which this node handed over.
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
    /// How many requests this node has forwarded to other nodes.
    pub fn forwards(&self) -> u64 {
        self.forward_count().get()
    }

    /// Whether this node forwards the requests for a machine.
    pub fn is_forwarding(&self, name: &str) -> bool {
        self.known_slot(name).is_some_and(|slot| slot.forward().is_some())
    }

    /// Answers a request by `here`, which asks the state machine on this node. If this node handed
    /// the machine over in proxy mode, uses `there` instead: it sends the request to the other
    /// node, under the epoch of the [`Forward`]. `epoch` is the epoch of the client's record.
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
                // The machine was handed over while the request waited.
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

    /// Finds the node to forward to. Reads the stored record if the remembered one is older than
    /// `least_epoch`.
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
    /// The node to forward requests to; `None` while this node serves the state machine.
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
