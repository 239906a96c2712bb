//! `NodeSlo`: a node's copy of the map `slo`, and a queue for each target to which the node sends
//! requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures::future::BoxFuture;
use nacre_clock::Clock;
use nacre_object::{Error, ObjectId, PoolName, Request, Result, TargetName, TenantName};
use nacre_qos::IoKind;
use nacre_qos::sharing::{Claim, Shared};
use nacre_telemetry::HistogramSnapshot;

use super::Miss;
use super::background::{BackgroundWork, is_background};
use super::cost::{Charging, Cost};
use super::parts::Parts;
use super::report::TargetReport;
use super::target_queue::TargetQueue;
use crate::direct::{IoCounts, Reading};
use crate::limits::{MAX_WATCH, MAX_WATCHED_TENANTS};
use crate::order::{NoOrders, Orders};
use crate::records::{SloState, background_tenant, system_tenant};

/// Says which target serves an object. A storage node has one target; a gateway sends to several.
pub trait TargetOf: Send + Sync + fmt::Debug {
    /// The target that serves the object's reads, and gets its writes first.
    fn target_of(&self, object: &ObjectId) -> Located;

    /// The name of the single queue that serves all targets while no tenant can have a promise.
    fn all(&self) -> TargetName;
}

/// The target of an object, or a question to find it.
pub enum Located {
    /// The object is at this target.
    At(TargetName),
    /// Await this to find the target. If it fails, the request fails with the same error.
    Ask(BoxFuture<'static, Result<TargetName>>),
}

impl fmt::Debug for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(target) => f.debug_tuple("At").field(target).finish(),
            Self::Ask(_) => f.write_str("Ask"),
        }
    }
}

/// A process with one target.
#[derive(Debug)]
pub struct OneTarget(pub TargetName);

impl TargetOf for OneTarget {
    fn target_of(&self, _: &ObjectId) -> Located {
        Located::At(self.0.clone())
    }

    fn all(&self) -> TargetName {
        self.0.clone()
    }
}

/// The state of the [layer](super) in one process.
#[derive(Debug)]
pub struct NodeSlo {
    clock: Arc<dyn Clock>,
    targets: Box<dyn TargetOf>,
    orders: Arc<dyn Orders>,
    state: RwLock<Arc<SloState>>,
    queues: Mutex<BTreeMap<TargetName, Arc<TargetQueue>>>,
    /// The fractions of the promises that this gateway uses; `None` in a process that shares no
    /// targets.
    parts: RwLock<Option<Arc<Parts>>>,
    /// The tenants whose traffic is watched, and until when.
    watched: Mutex<BTreeMap<TenantName, Duration>>,
    system: (PoolName, TenantName),
}

impl NodeSlo {
    /// Creates the state for a process that runs no order programs. Until [`apply`](Self::apply) is
    /// called, requests are measured but not ordered.
    pub fn new(targets: impl TargetOf + 'static, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::ordered_by(targets, clock, Arc::new(NoOrders))
    }

    /// Like [`NodeSlo::new`], for a process that runs order programs: the map may name one of
    /// `orders`.
    pub fn ordered_by(
        targets: impl TargetOf + 'static,
        clock: Arc<dyn Clock>,
        orders: Arc<dyn Orders>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            targets: Box::new(targets),
            orders,
            state: RwLock::default(),
            queues: Mutex::default(),
            parts: RwLock::default(),
            watched: Mutex::default(),
            system: (PoolName::system(), system_tenant()),
        })
    }

    /// Applies a newer state of the map `slo`.
    pub fn apply(&self, state: SloState) {
        let state = Arc::new(state);
        // Holding the lock on the queues ensures that a queue created meanwhile gets the newer
        // state.
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&state);
        for queue in queues.values() {
            queue.apply(Arc::clone(&state));
        }
    }

    /// The last applied state of the map `slo`.
    pub fn state(&self) -> Arc<SloState> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Declares that this process is one of several gateways to its targets. Until
    /// [`use_parts`](Self::use_parts) is called, it uses nothing of any tenant's promise.
    pub fn share(&self) {
        self.set_parts(Some(Arc::default()));
    }

    /// Uses these fractions of the promises until their lease ends.
    pub fn use_parts(&self, parts: Parts) {
        self.set_parts(Some(Arc::new(parts)));
    }

    /// Reduces the fractions that this gateway uses of promises to at most the fractions in
    /// `claim`. Call this before publishing the claim.
    pub fn give_back(&self, claim: &Claim) {
        let known = self.parts.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known {
            self.set_parts(Some(Arc::new(known.no_more_than(claim))));
        }
    }

    /// The total work that tenants with a promise have asked of each target since the process
    /// started. Keys are `TARGET/TENANT`.
    pub fn asked_seconds(&self) -> BTreeMap<Shared, f64> {
        self.all_queues().iter().flat_map(|queue| queue.asked_seconds()).collect()
    }

    fn set_parts(&self, parts: Option<Arc<Parts>>) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        self.parts.write().unwrap_or_else(PoisonError::into_inner).clone_from(&parts);
        for queue in queues.values() {
            queue.set_parts(parts.clone());
        }
    }

    /// Measures a tenant's requests to each target for this long. Meanwhile reports contain the
    /// tenant's arrival curves.
    ///
    /// # Errors
    /// `Exhausted` if too many tenants are watched; `Invalid` if the time is too long.
    pub fn watch(&self, tenant: &TenantName, time: Duration) -> Result<()> {
        if time > MAX_WATCH {
            return Err(Error::invalid(format!(
                "watching a tenant for {} s is too long",
                time.as_secs_f64()
            ))
            .hint(format!("watch for {} s at most", MAX_WATCH.as_secs())));
        }
        let now = self.clock.monotonic();
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, until| *until > now);
        if watched.len() >= MAX_WATCHED_TENANTS && !watched.contains_key(tenant) {
            return Err(Error::exhausted(format!(
                "{MAX_WATCHED_TENANTS} tenants are watched already, the most at a time"
            ))
            .hint("wait until one of these watches ends"));
        }
        watched.insert(tenant.clone(), now + time);
        drop(watched);
        self.all_queues().iter().try_for_each(|queue| queue.watch(tenant, time))
    }

    /// A report of this process about each target.
    pub fn report(&self) -> Vec<TargetReport> {
        self.all_queues().iter().map(|queue| queue.report()).collect()
    }

    /// The latencies of tenants with a promise since the process started.
    pub fn histograms(&self) -> Vec<(TargetName, TenantName, HistogramSnapshot)> {
        self.all_queues().iter().flat_map(|queue| queue.histograms()).collect()
    }

    /// Returns the promises that were missed since the last call.
    pub fn take_misses(&self) -> Vec<Miss> {
        self.all_queues().iter().flat_map(|queue| queue.take_misses()).collect()
    }

    /// Counts of the requests that this process has sent to each target since it started.
    pub fn sent(&self) -> BTreeMap<TargetName, IoCounts> {
        self.all_queues().iter().map(|queue| queue.sent()).collect()
    }

    /// Computes the direct traffic (requests that pass no gateway) from two readings of a target's
    /// counters. Charges its work to nacre's background tenant, and shows it in reports. If a
    /// reading is missing, the direct traffic is unknown.
    pub fn note_direct(
        &self,
        target: &TargetName,
        earlier: Option<&Reading>,
        now: Option<&Reading>,
    ) {
        self.queue(target).note_direct(earlier, now);
    }

    /// The target that serves the object's reads, and gets its writes first.
    ///
    /// # Errors
    /// `Unavailable` if the system that places objects does not answer.
    pub async fn target_of(&self, object: &ObjectId) -> Result<TargetName> {
        match self.targets.target_of(object) {
            Located::At(target) => Ok(target),
            Located::Ask(ask) => ask.await,
        }
    }

    pub(super) fn locate(&self, object: &ObjectId) -> Located {
        let is_used = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            state.is_enforced || !state.profiles.is_empty()
        };
        match is_used {
            true => self.targets.target_of(object),
            false => Located::At(self.targets.all()),
        }
    }

    /// Waits until a piece of background work may run, which moves about `bytes` bytes. The process
    /// must have only one target.
    ///
    /// # Errors
    /// `Exhausted` if too much background work waits, or if this piece has waited for too long.
    pub async fn background(&self, kind: IoKind, bytes: u32) -> Result<BackgroundWork> {
        let cost = Cost { kind, bytes, charging: Charging::ByReply };
        let queue = self.queue(&self.targets.all());
        queue.enter(background_tenant(), &cost).await.map(BackgroundWork)
    }

    /// The tenant of a request: one of nacre's own tenants, the tenant to which the pool is
    /// assigned, or the sender.
    pub fn tenant_of(&self, request: &Request) -> TenantName {
        let header = &request.header;
        if header.object.pool == self.system.0 {
            return self.system.1.clone();
        }
        if is_background(request) {
            return background_tenant();
        }
        self.tenant_of_pool(&header.object.pool).unwrap_or_else(|| header.tenant.clone())
    }

    /// The tenant to which a pool is assigned, if it is.
    pub fn tenant_of_pool(&self, pool: &PoolName) -> Option<TenantName> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.pools.get(pool).cloned()
    }

    pub(super) fn is_system(&self, tenant: &TenantName) -> bool {
        *tenant == self.system.1
    }

    pub(super) fn queue(&self, target: &TargetName) -> Arc<TargetQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(target) {
            return Arc::clone(queue);
        }
        let (clock, orders) = (Arc::clone(&self.clock), Arc::clone(&self.orders));
        let queue = TargetQueue::new(target.clone(), clock, orders, self.state());
        queues.insert(target.clone(), Arc::clone(&queue));
        queue.set_parts(self.parts.read().unwrap_or_else(PoisonError::into_inner).clone());
        let now = self.clock.monotonic();
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        for (tenant, until) in watched.iter().filter(|(_, until)| **until > now) {
            // A new queue watches no tenants yet, so it can watch these.
            let _ = queue.watch(tenant, *until - now);
        }
        drop(watched);
        queue
    }

    fn all_queues(&self) -> Vec<Arc<TargetQueue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.values().map(Arc::clone).collect()
    }
}
