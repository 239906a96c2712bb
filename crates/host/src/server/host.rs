//! The host: what a node runs to serve the state machines of one kind.
//!
//! The first request to a machine opens it. If its record names this node, the host still takes it
//! over anew, because the machine's memory does not outlive the process. At a `recover` request the
//! host takes the machine over from another node in the same way.
//!
//! Each job that reads or changes a record runs in its own task, so a client that stops waiting
//! does not interrupt it. At most one job runs at a time for each machine.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_object::{Error, ErrorKind, NodeName, Result};
use nacre_telemetry::{Counter, Durations, HistogramSnapshot};
use tokio::time::{Instant, sleep, timeout};

use super::hosting::{Hosting, NameOf};
use super::slot::{NotReady, Slot};
use super::takeover::{Outcome, take_over};
use crate::core::{EpochRefusal, Machine};
use crate::outcome::{busy, busy_because};
use crate::record::{Record, Words, deposed};
use crate::records::stored;

/// How many times the host reads the record for one request. After that it refuses the request,
/// because the record changes too often.
const MAX_LOOKS: usize = 5;
/// If the host fails to take a machine over from itself, it tries again after this time.
const FENCE_AGAIN: Duration = Duration::from_millis(100);
/// After this time the host tells a waiting client that there is no answer yet.
pub const BUSY_AFTER: Duration = Duration::from_secs(1);

/// Serves the state machines of one kind on a node. A clone is a handle to the same host.
pub struct Host<K: Hosting>(Arc<Inner<K>>);

struct Inner<K: Hosting> {
    node: NodeName,
    kind: K,
    slots: Mutex<HashMap<NameOf<K>, Arc<Slot<K>>>>,
    takeover_time: Durations,
    forwards: Counter,
}

/// How many times the host has read the record for one request.
#[derive(Debug, Default)]
pub struct Looks(usize);

impl<K: Hosting> Host<K> {
    /// The host of `node`.
    pub fn new(node: NodeName, kind: K) -> Self {
        let (slots, takeover_time, forwards) = Default::default();
        Self(Arc::new(Inner { node, kind, slots, takeover_time, forwards }))
    }

    /// The node.
    pub fn node(&self) -> &NodeName {
        &self.0.node
    }

    /// The kind.
    pub fn kind(&self) -> &K {
        &self.0.kind
    }

    /// The machines that this node serves.
    pub fn serving(&self) -> Vec<NameOf<K>> {
        let slots = self.slots();
        let serving = slots.iter().filter(|(_, slot)| slot.machine().is_some());
        let mut names: Vec<_> = serving.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// The durations of the takeovers that made this node an authority.
    pub fn takeover_seconds(&self) -> HistogramSnapshot {
        self.0.takeover_time.snapshot()
    }

    /// Counts the requests that this node forwards.
    pub(super) fn forward_count(&self) -> &Counter {
        &self.0.forwards
    }

    /// The slot of a state machine, if a request has named this machine before.
    pub fn known_slot(&self, name: &str) -> Option<Arc<Slot<K>>> {
        self.slots().get(name).cloned()
    }

    /// Returns this node's slot for a state machine, which contains the machine while this node
    /// serves it. Creates the slot if there is none.
    ///
    /// # Errors
    /// `Exhausted` if the node already hosts `MAX_HOSTED` machines.
    pub fn slot(&self, name: &NameOf<K>) -> Result<Arc<Slot<K>>> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get::<str>(name.borrow()) {
            return Ok(slot.clone());
        }
        if slots.len() >= K::MAX_HOSTED {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.machine().is_some());
        }
        if slots.len() >= K::MAX_HOSTED {
            let (most, thing) = (K::MAX_HOSTED, K::Record::WORDS.thing);
            let text =
                format!("node {} already serves {most} {thing}s, the most it can", self.0.node);
            return Err(Error::exhausted(text).hint(format!(
                "move one to another node, remove one, or add a node that serves {thing}s"
            )));
        }
        Ok(slots.entry(name.clone()).or_default().clone())
    }

    /// Makes a state machine ready for a request that it could not answer, so that the caller can
    /// try the request again.
    ///
    /// # Errors
    /// `Stale` if the client must read the record. `Unavailable` if the machine cannot be served
    /// now, with [`is_busy`](crate::is_busy) if this node is about to serve it. `NotFound` if there
    /// is no such machine.
    pub async fn get_ready(
        &self,
        name: &NameOf<K>,
        why: NotReady,
        looks: &mut Looks,
    ) -> Result<()> {
        looks.0 += 1;
        if looks.0 > MAX_LOOKS {
            let Words { thing, authority, .. } = K::Record::WORDS;
            let text = format!("the {thing}'s {authority} changed too often during the request");
            return Err(Error::unavailable(text).hint("try again"));
        }
        match why {
            NotReady::NotServing => self.soon(name, Job::Open).await,
            NotReady::Epoch(EpochRefusal::Behind) => self.soon(name, Job::CatchUp).await,
            NotReady::Epoch(EpochRefusal::Stale) => Err(deposed::<K::Record>()),
        }
    }

    /// Makes this node the authority of a state machine. If a record with an epoch later than
    /// `replaces` is stored, adopts that record instead. Returns the epoch of the latest record
    /// that this node knows.
    ///
    /// # Errors
    /// `NotFound` if there is no such machine; `Unavailable` if an object that must be sealed does
    /// not answer.
    pub async fn recover(&self, name: &NameOf<K>, replaces: u64) -> Result<u64> {
        self.do_job(name, Job::Recover { replaces }).await
    }

    /// Starts a task that fences off the clients to which this state machine has lent state. For
    /// that, this node takes the machine over from itself, at a new epoch. Returns `false` if such
    /// a task already runs, or if this node does not serve the machine. When the task ends, it
    /// wakes all tasks that wait for the machine.
    pub fn fence(&self, name: &NameOf<K>, slot: &Arc<Slot<K>>) -> bool {
        let epoch = slot.machine().as_ref().map(|machine| machine.serving().record().epoch());
        let Some(epoch) = epoch else { return false };
        if slot.is_fencing.swap(true, Ordering::AcqRel) {
            return false;
        }
        let (host, name, slot) = (self.clone(), name.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            if host.recover(&name, epoch).await.is_err() {
                // A task that still waits starts the next attempt.
                sleep(FENCE_AGAIN).await;
            }
            slot.is_fencing.store(false, Ordering::Release);
            slot.tell_change();
        });
        true
    }

    /// Runs `change` on a state machine that this node serves, while no other job of the machine
    /// runs. `change` runs to its end even if its caller stops waiting. It returns the epoch of the
    /// changed record.
    ///
    /// # Errors
    /// `Stale` if this node is not the authority; those of `change`.
    pub async fn change<F, Changing>(&self, name: &NameOf<K>, change: F) -> Result<u64>
    where
        F: FnOnce(Self, Arc<Slot<K>>) -> Changing + Send + 'static,
        Changing: Future<Output = Result<u64>> + Send,
    {
        let opened = name.clone();
        self.alone(name, move |host: Self, slot: Arc<Slot<K>>| async move {
            host.open(&opened, &slot).await?;
            change(host, slot).await
        })
        .await
    }

    /// Waits for a job, but not for long: clients have a silent authority replaced.
    async fn soon(&self, name: &NameOf<K>, job: Job) -> Result<()> {
        match timeout(BUSY_AFTER, self.do_job(name, job)).await {
            Ok(done) => done.map(drop),
            Err(_) => {
                let reason = self.known_slot(name.borrow()).and_then(|slot| slot.waits_for());
                let thing = K::Record::WORDS.thing;
                Err(match reason {
                    Some(reason) => busy_because(reason),
                    None => busy(format!("the {thing} is being recovered")),
                })
            }
        }
    }

    async fn do_job(&self, name: &NameOf<K>, job: Job) -> Result<u64> {
        let about = name.clone();
        self.alone(name, move |host: Self, slot: Arc<Slot<K>>| async move {
            match job {
                Job::Open => host.open(&about, &slot).await,
                Job::CatchUp => host.catch_up(&about, &slot).await,
                Job::Recover { replaces } => host.unless_newer(&about, &slot, replaces).await,
            }
        })
        .await
    }

    /// Runs a job in its own task, while no other job of the state machine runs. Returns the epoch
    /// of the latest record that this node knows.
    async fn alone<F, Running>(&self, name: &NameOf<K>, job: F) -> Result<u64>
    where
        F: FnOnce(Self, Arc<Slot<K>>) -> Running + Send + 'static,
        Running: Future<Output = Result<u64>> + Send,
    {
        let slot = self.slot(name)?;
        let host = self.clone();
        let task = tokio::spawn(async move {
            let _alone = slot.alone().await;
            job(host, slot.clone()).await
        });
        let ended = task.await.map_err(|error| Error::unavailable(error.to_string()))?;
        if ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            self.slots().remove::<str>(name.borrow());
        }
        ended
    }

    async fn open(&self, name: &NameOf<K>, slot: &Slot<K>) -> Result<u64> {
        if let Some(machine) = slot.machine().as_ref() {
            return Ok(machine.serving().record().epoch());
        }
        let record = stored(self.0.kind.records(), name).await?;
        match record.authority() {
            Some(authority) if authority.node == self.0.node => {
                self.take_over(name, slot, record.epoch()).await
            }
            _ => {
                let Words { thing, authority, record } = K::Record::WORDS;
                Err(Error::stale(format!("{} is not the {thing}'s {authority}", self.0.node))
                    .hint(format!("read the {thing}'s {record} and retry")))
            }
        }
    }

    async fn catch_up(&self, name: &NameOf<K>, slot: &Slot<K>) -> Result<u64> {
        let record = stored(self.0.kind.records(), name).await?;
        let epoch = record.epoch();
        slot.adopt(record);
        Ok(epoch)
    }

    /// Takes over, unless this node has done so since `replaces`.
    async fn unless_newer(&self, name: &NameOf<K>, slot: &Slot<K>, replaces: u64) -> Result<u64> {
        let newer = slot.machine().as_ref().and_then(|machine| {
            let serving = machine.serving();
            (serving.authority().epoch > replaces).then(|| serving.record().epoch())
        });
        match newer {
            Some(epoch) => Ok(epoch),
            None => self.take_over(name, slot, replaces).await,
        }
    }

    async fn take_over(&self, name: &NameOf<K>, slot: &Slot<K>, replaces: u64) -> Result<u64> {
        let started = Instant::now();
        let mut replaces = replaces;
        loop {
            let outcome = take_over(&self.0.node, &self.0.kind, name, slot, replaces).await;
            slot.set_waits_for(None);
            match outcome? {
                Outcome::Serving(machine) => {
                    let epoch = machine.serving().record().epoch();
                    slot.install(Some(machine));
                    self.0.takeover_time.record_duration(started.elapsed());
                    return Ok(epoch);
                }
                Outcome::Adopted(record) => {
                    let is_named = record.authority().is_some_and(|a| a.node == self.0.node);
                    let epoch = record.epoch();
                    if slot.adopt(record) || !is_named {
                        return Ok(epoch);
                    }
                    // An earlier process of this node made that claim. Its state is lost, so take
                    // over again.
                    replaces = epoch;
                }
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<NameOf<K>, Arc<Slot<K>>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that reads or claims a record.
enum Job {
    /// Serve, if the record names this node.
    Open,
    /// Read the stored record, which may be later than the one that is used here.
    CatchUp,
    /// Become the authority, in place of the one with epoch `replaces`.
    Recover { replaces: u64 },
}

impl<K: Hosting> Clone for Host<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Hosting> fmt::Debug for Host<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("node", &self.0.node).finish_non_exhaustive()
    }
}
