//! [`PoolTable`]: which pools of nacre lie in a RADOS pool of their own.
//!
//! The table is one RADOS object in the main pool, in JSON. Every engine watches it, and keeps a
//! copy. A change has three steps:
//!
//! 1. Replace the object, if its version is still the one that was read.
//! 2. Notify all engines. Each marks its copy as outdated before it acknowledges.
//! 3. Return when all have acknowledged. A dead process keeps its watch for half a minute, so this
//!    may take as long.
//!
//! **Invariant:** once an engine has acknowledged a change, it starts no request before it has read
//! the table again.
//!
//! **Invariant:** the entry of a pool changes only while the pool holds no objects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::task::noop_waker_ref;
use nacre_object::{Error, ErrorKind, EventQueue, PoolName, Result};
use nacre_rados_layout::encode_letter;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::cluster::administrator::{Expected, PoolObjects};
use crate::cluster::failure::{operation_failed, status};
use crate::engine::too_many_notifications;
use crate::ffi::IoContext;
use crate::mailbox::{Mailbox, NOTIFY_TIMEOUT};

/// The namespace of the table in the main pool. No pool of nacre can have this name.
pub const TABLE_NAMESPACE: &str = "nacre/pools";
/// The object that is the table.
pub const TABLE_OBJECT: &str = "table";
/// The most pools with a RADOS pool of their own. An OSD can bear only some hundred placement
/// groups, and each RADOS pool has several.
const MAX_ENTRIES: usize = 256;
/// The most bytes of the table: an entry has fewer than 1,024.
const MAX_TABLE_BYTES: usize = MAX_ENTRIES * 1024;
/// How long all engines have to acknowledge a change. The cluster forgets a process that died
/// after 30 s.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(50);
/// How often a change is tried if others change the table at the same time.
const MAX_ATTEMPTS: usize = 8;

/// A RADOS pool that holds pools of nacre.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RadosPoolRef {
    /// Its name when it was chosen.
    pub name: String,
    /// Its number. Unlike a name, a number is never used again.
    pub id: i64,
}

/// The pools of nacre with a RADOS pool of their own.
pub type PlacedPools = BTreeMap<String, RadosPoolRef>;

/// The table, and this engine's copy of it.
#[derive(Debug)]
pub struct PoolTable {
    context: Arc<IoContext>,
    mailbox: Arc<Mailbox>,
    copy: Mutex<Option<TableCopy>>,
    /// Held while the table is read, so that it is read once for all who wait.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct TableCopy {
    /// Gets an event with each change.
    changes: Arc<EventQueue>,
    placed_pools: Arc<PlacedPools>,
    is_outdated: bool,
}

impl PoolTable {
    /// The table in this namespace. `mailbox` watches its object.
    pub fn new(context: Arc<IoContext>, mailbox: Arc<Mailbox>) -> Self {
        Self { context, mailbox, copy: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The present table. The same `Arc` is returned until the table changes.
    ///
    /// # Errors
    /// Those of the cluster, if the table must be read; `Corrupt` if it is malformed.
    pub async fn placed_pools(&self) -> Result<Arc<PlacedPools>> {
        if let Some(placed_pools) = self.unchanged() {
            return Ok(placed_pools);
        }
        let _turn = self.reading.lock().await;
        if let Some(placed_pools) = self.unchanged() {
            return Ok(placed_pools);
        }
        let known = self.copy().as_ref().map(|copy| Arc::clone(&copy.changes));
        let changes = match known {
            Some(changes) => changes,
            None => self.mailbox.listen(TABLE_OBJECT).await?,
        };
        // Changes up to here are seen by the read that follows.
        while next_change(&changes) {}
        let (placed_pools, _) = self.read().await?;
        let placed_pools = Arc::new(placed_pools);
        let copy =
            TableCopy { changes, placed_pools: Arc::clone(&placed_pools), is_outdated: false };
        *self.copy() = Some(copy);
        Ok(placed_pools)
    }

    /// The table as this engine read it last, which may be outdated. `None` before the first read.
    pub fn last_read(&self) -> Option<Arc<PlacedPools>> {
        self.copy().as_ref().map(|copy| Arc::clone(&copy.placed_pools))
    }

    /// Sets the RADOS pool of a pool of nacre; `None` removes its entry. Returns when no engine uses
    /// the former entry.
    ///
    /// # Errors
    /// `Exhausted` if the table is full; `Conflict` if others keep changing the table;
    /// `Unavailable` if an engine does not acknowledge the change, which is then stored
    /// nevertheless.
    pub async fn set(&self, pool: &PoolName, place: Option<RadosPoolRef>) -> Result<()> {
        // This also watches the table, and so makes its object.
        self.placed_pools().await?;
        let objects = PoolObjects::of(Arc::clone(&self.context));
        for _ in 0..MAX_ATTEMPTS {
            let (former, version) = self.read().await?;
            let mut placed_pools = former.clone();
            match &place {
                Some(place) => drop(placed_pools.insert(pool.to_string(), place.clone())),
                None => drop(placed_pools.remove(pool.as_str())),
            }
            if placed_pools.len() > MAX_ENTRIES {
                return Err(Error::exhausted(format!(
                    "{MAX_ENTRIES} pools have a RADOS pool of their own, the most there can be"
                ))
                .hint("remove one of these pools, or create this pool in the common RADOS pool"));
            }
            if placed_pools != former {
                let content = serde_json::to_vec(&placed_pools)
                    .map_err(|cause| Error::invalid(cause.to_string()))?;
                let expected = Expected::Version(version);
                match objects.write(TABLE_OBJECT, expected, Bytes::from(content)).await {
                    Err(error) if error.kind() == ErrorKind::Conflict => continue,
                    written => written?,
                }
            }
            return self.tell_all().await;
        }
        Err(Error::conflict("others keep changing where pools lie").hint("try again"))
    }

    /// The copy, unless it is outdated.
    fn unchanged(&self) -> Option<Arc<PlacedPools>> {
        let mut copy = self.copy();
        let copy = copy.as_mut()?;
        copy.is_outdated |= next_change(&copy.changes);
        (!copy.is_outdated).then(|| Arc::clone(&copy.placed_pools))
    }

    async fn read(&self) -> Result<(PlacedPools, u64)> {
        let objects = PoolObjects::of(Arc::clone(&self.context));
        let read = objects.read(TABLE_OBJECT, MAX_TABLE_BYTES).await;
        let Some((content, version)) = read.map_err(|error| error.during("find a pool"))? else {
            return Ok((PlacedPools::new(), 0));
        };
        if content.is_empty() {
            return Ok((PlacedPools::new(), version));
        }
        let placed_pools = serde_json::from_slice(&content).map_err(|cause| {
            let path = format!("{TABLE_NAMESPACE} {TABLE_OBJECT}");
            Error::corrupt(format!("the table of pools is malformed: {cause}")).on(path).hint(
                "run one release of nacre on all nodes; `rados -N nacre/pools get table -` shows the table",
            )
        })?;
        Ok((placed_pools, version))
    }

    async fn tell_all(&self) -> Result<()> {
        let telling = async {
            loop {
                let room = self.context.admit_notification().ok_or_else(too_many_notifications)?;
                let letter = encode_letter(TABLE_OBJECT, b"");
                match self.context.notify(TABLE_OBJECT, letter, NOTIFY_TIMEOUT, room).await {
                    // Some engine has not acknowledged: it is busy, or its process has died.
                    (status::TIMED_OUT, true) => {}
                    (failed, _) if failed < 0 && failed != status::ABSENT => {
                        return Err(operation_failed(failed));
                    }
                    _ => return Ok(()),
                }
            }
        };
        timeout(CONFIRM_TIMEOUT, telling).await.unwrap_or_else(|_| {
            let seconds = CONFIRM_TIMEOUT.as_secs();
            Err(Error::unavailable(format!(
                "a process that uses the Ceph cluster did not confirm the change within {seconds} s"
            ))
            .hint("see that all nodes run (`nacre status`), and try again"))
        })
    }

    fn copy(&self) -> MutexGuard<'_, Option<TableCopy>> {
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the next event; whether there was one.
fn next_change(changes: &EventQueue) -> bool {
    match changes.poll(&Context::from_waker(noop_waker_ref())) {
        Poll::Ready(event) => event.is_some(),
        Poll::Pending => false,
    }
}
