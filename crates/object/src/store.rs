//! `Store`: the waist outside an object.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

use crate::{Error, ObjectId, ObjectName, PoolName, Reply, Request, Result, TargetName};

/// Something that some stores can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Capability {
    /// Run class methods.
    Classes,
    /// Object snapshots: create, read at, list, remove, roll back.
    Snapshots,
    /// `CloneFrom` and `WriteFullFrom`.
    Clone,
    /// List a pool.
    List,
    /// Report every committed change to a watched object by itself (`WatchEvent::Changed`).
    WatchChanges,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Capability; 5] =
        [Self::Classes, Self::Snapshots, Self::Clone, Self::List, Self::WatchChanges];
}

/// The capabilities of a store. The store answers anything that needs another capability with
/// `Unsupported`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u32);

impl Capabilities {
    /// None at all.
    pub const NONE: Capabilities = Capabilities(0);

    /// All there are.
    pub fn all() -> Self {
        Capability::ALL.into_iter().fold(Self::NONE, Self::with)
    }

    /// These and one more.
    pub fn with(self, capability: Capability) -> Self {
        Self(self.0 | 1 << capability as u8)
    }

    /// These without one.
    pub fn without(self, capability: Capability) -> Self {
        Self(self.0 & !(1 << capability as u8))
    }

    /// Whether this one is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u8) != 0
    }

    /// Those that both have.
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Checks that these capabilities suffice for a request.
    ///
    /// # Errors
    /// `Unsupported`, with the operation that needs more.
    pub fn check(self, request: &Request) -> Result<()> {
        let at_snapshot = request.header.snapshot.as_ref().map(|_| ("read", Capability::Snapshots));
        let needs = request.ops.iter().filter_map(|op| Some((op.name(), op.capability()?)));
        match at_snapshot.into_iter().chain(needs).find(|(_, needed)| !self.has(*needed)) {
            None => Ok(()),
            Some((operation, needed)) => {
                let text = format!("the store lacks the capability {needed:?}");
                Err(Error::unsupported(text).during(operation).on(&request.header.object))
            }
        }
    }

    /// Returns the capabilities as a bit set for the wire protocol. Bit n stands for the n-th of
    /// [`Capability::ALL`].
    pub fn bits(self) -> u32 {
        self.0
    }

    /// From a bit set; bits without meaning here are dropped.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & Self::all().0)
    }
}

/// Which names of a pool to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// The pool.
    pub pool: PoolName,
    /// Exclusive lower bound; `None` to start at the beginning.
    pub after: Option<ObjectName>,
    /// Only names that start so; empty for all.
    pub prefix: String,
    /// List at most this many names, and at most `MAX_LIST_ENTRIES`. 0 only asks whether there are
    /// any.
    pub limit: usize,
}

/// Part of a pool's names, in byte order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// The names.
    pub names: Vec<ObjectName>,
    /// Whether there are more after the last one.
    pub more: bool,
}

/// Anything that answers requests on objects: an engine, a remote node, or a stack of layers.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Runs a transaction. `Ok` means that its changes are on disk, so everything in the reply
    /// survives a crash.
    ///
    /// # Errors
    /// The error that made the transaction fail; the store then drops its changes. After
    /// `Unavailable` the caller does not know whether the transaction happened.
    async fn submit(&self, request: Request) -> Result<Reply>;

    /// Lists names of objects in a pool, in byte order. If objects are created or removed
    /// meanwhile, pages show the pool at different times.
    ///
    /// # Errors
    /// `Unsupported` without [`Capability::List`].
    async fn list(&self, request: ListRequest) -> Result<ListPage>;

    /// What this store can do. It refuses a request that needs more with `Unsupported`, before any
    /// part of the request runs.
    fn capabilities(&self) -> Capabilities;
}

/// An event that a watcher gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// The object was changed. `version` is its new version, or 0 if it was removed. The store may
    /// report several changes as one, with the last version. One watch reports rising versions.
    Changed {
        /// The version after.
        version: u64,
    },
    /// A client notified the object's watchers.
    Notified {
        /// What they said.
        payload: Bytes,
    },
    /// Events were possibly missed, so read the object again. The stream goes on if it can.
    Lost,
}

/// The events of one watched object, from the start of the watch. The stream ends when the store
/// closes; then start a new watch.
pub type WatchStream = Pin<Box<dyn Stream<Item = WatchEvent> + Send>>;

/// Stores that report changes of objects.
#[async_trait]
pub trait Watch: Send + Sync {
    /// Watches an object, which need not exist. From the return of this call on, the store reports
    /// every event, in order. A watcher that is too slow gets `Lost` instead of the events that it
    /// missed. Dropping the stream ends the watch.
    ///
    /// # Errors
    /// `Exhausted` if the store has as many watches as it may have; `Unavailable`.
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream>;

    /// Sends a payload to every watcher of an object. Returns when the payload was sent to all of
    /// them; they may not have received it yet.
    ///
    /// # Errors
    /// `Unavailable`; `Invalid` if the payload is longer than `MAX_NOTIFY_BYTES`.
    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()>;
}

/// Stores that spread objects over targets.
pub trait Locate: Send + Sync {
    /// Which target holds the object, whether it exists or not.
    fn locate(&self, object: &ObjectId) -> TargetName;

    /// Every target.
    fn targets(&self) -> Vec<TargetName>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_can_be_combined_like_sets() {
        let all = Capabilities::all();
        let some = all.without(Capability::Clone);
        assert!(all.has(Capability::Clone) && !some.has(Capability::Clone));
        assert_eq!(all.intersection(some), some);
        assert_eq!(Capabilities::from_bits(some.bits()), some);
        assert_eq!(Capabilities::from_bits(u32::MAX), all);
    }
}
