//! `TargetQueue`: the requests of one process to one target.
//!
//! Protocol: [`TargetQueue::enter`] waits until a request may go, and returns a [`Permit`].
//! [`Permit::leave`] ends the request. If the future of a request is dropped at any stage, the
//! request leaves the queue.
//!
//! **Invariant:** each request that the scheduler sends is completed once. Waiting requests are
//! woken under the lock, so they continue in the order in which the scheduler sent them.

mod permit;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::{Error, Result, TargetName, TenantName};
use nacre_qos::scheduler::{
    DeviceLimits, NewRequest, Next, RequestId, Scheduler, TenantId, TenantSettings, Ties, Work,
};
use nacre_qos::sharing::Shared;
use nacre_qos::{Envelope, RateBurst};
use nacre_telemetry::HistogramSnapshot;
use tokio::sync::oneshot;

pub(super) use self::permit::Permit;
use super::Miss;
use super::cost::{Charging, Cost};
use super::device_clock::{DeviceClock, Share};
use super::drift::Drift;
use super::meter::Meter;
use super::ordering::Ordering;
use super::parts::{Parts, shared};
use super::report::TargetReport;
use super::tenant::{Tenant, Watched};
use crate::direct::{DirectTraffic, IoCounts, Reading};
use crate::limits::{
    BACKGROUND_WEIGHT, MAX_METERED_TENANTS, MAX_OUTSTANDING_IN_GROUPS, MAX_QUEUE_WAIT,
    SYSTEM_BURST_SECONDS, SYSTEM_RATE,
};
use crate::order::Orders;
use crate::records::{SloState, background_tenant, system_tenant};

/// The requests of one process to one target.
#[derive(Debug)]
pub(super) struct TargetQueue {
    target: TargetName,
    clock: Arc<dyn Clock>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Arc<SloState>,
    /// The fractions of the promises that this gateway uses; `None` in a process that shares no
    /// targets.
    parts: Option<Arc<Parts>>,
    /// Whether the lease of the fractions is over and the scheduler knows it.
    have_parts_ended: bool,
    scheduler: Scheduler,
    tenants: BTreeMap<TenantName, Tenant>,
    /// The name that tenants share once too many tenants are counted.
    others: TenantName,
    waiting: BTreeMap<RequestId, oneshot::Sender<Admission>>,
    device: DeviceClock,
    drift: Drift,
    /// The requests sent to the target.
    sent: IoCounts,
    /// The direct traffic between the last two readings, if it is known.
    direct: Option<DirectTraffic>,
    ordering: Ordering,
}

/// The outcome of a wait in the queue.
#[derive(Debug, Clone, Copy)]
enum Admission {
    /// The scheduler has sent the request. `begun` is the reading of the device clock at that time.
    Sent { is_within: bool, begun: Share },
    /// The request has waited for too long.
    Expired,
}

/// A request that waits. Dropping this value takes the request out of the queue.
struct Waiting<'a> {
    queue: &'a Arc<TargetQueue>,
    tenant: TenantId,
    request: RequestId,
    is_over: bool,
}

impl TargetQueue {
    /// Creates the queue of a target with the settings in `state`. `orders` are the order programs
    /// that these settings can name.
    pub fn new(
        target: TargetName,
        clock: Arc<dyn Clock>,
        orders: Arc<dyn Orders>,
        state: Arc<SloState>,
    ) -> Arc<Self> {
        let others = TenantName::new("nacre.others").expect("a literal");
        let scheduler =
            Scheduler::new(MAX_OUTSTANDING_IN_GROUPS, Ties::FirstCome).expect("a constant");
        let inner = Inner {
            state: Arc::default(),
            parts: None,
            have_parts_ended: false,
            scheduler,
            tenants: BTreeMap::new(),
            others,
            waiting: BTreeMap::new(),
            device: DeviceClock::new(MAX_OUTSTANDING_IN_GROUPS.writes.requests),
            drift: Drift::default(),
            sent: IoCounts::default(),
            direct: None,
            ordering: Ordering::new(orders),
        };
        let queue = Arc::new(Self { target, clock, inner: Mutex::new(inner) });
        queue.apply(state);
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a new state. Waiting requests continue to wait under the new rules.
    pub fn apply(&self, state: Arc<SloState>) {
        let mut inner = self.lock();
        inner.state = state;
        inner.settle(&self.target, self.clock.monotonic());
    }

    /// Uses these fractions of the promises from now on.
    pub fn set_parts(&self, parts: Option<Arc<Parts>>) {
        let mut inner = self.lock();
        if inner.parts == parts {
            return;
        }
        inner.parts = parts;
        inner.settle(&self.target, self.clock.monotonic());
    }

    /// The total work that tenants with a promise have asked for so far. The keys are
    /// `TARGET/TENANT`.
    pub fn asked_seconds(&self) -> Vec<(Shared, f64)> {
        let inner = self.lock();
        let promised =
            inner.tenants.iter().filter(|(name, _)| inner.state.promises.contains_key(name));
        let asked = |(name, tenant): (&TenantName, &Tenant)| {
            (shared(&self.target, name), tenant.meter.work_seconds)
        };
        promised.map(asked).collect()
    }

    /// Waits until a request of a tenant may go to the engine.
    ///
    /// # Errors
    /// `Exhausted`, with the time to wait, if too many requests of the tenant wait, or if this
    /// request has waited for [`MAX_QUEUE_WAIT`].
    pub async fn enter(self: &Arc<Self>, tenant: TenantName, cost: &Cost) -> Result<Permit> {
        let came_at = self.clock.monotonic();
        let (tenant, id, request, waiter) = {
            let mut inner = self.lock();
            inner.end_parts(&self.target, came_at);
            let tenant = inner.counted_as(tenant);
            let id = inner.tenant_id(&tenant, &self.target, came_at)?;
            if !inner.state.is_enforced {
                let begun = inner.device.begin(came_at);
                drop(inner);
                return Ok(self.permit(tenant, came_at, *cost, None, (false, begun)));
            }
            let new = inner.request(id, cost, &self.target, came_at);
            let request = match inner.scheduler.enqueue(new, came_at) {
                Ok(request) => request,
                Err(refused) => {
                    inner.refuse(&tenant);
                    return Err(Error::from(refused).on(format!("{tenant} at {}", self.target)));
                }
            };
            let (wake, waiter) = oneshot::channel();
            inner.waiting.insert(request, wake);
            inner.send_what_may_go(came_at);
            (tenant, id, request, waiter)
        };
        let mut waiting = Waiting { queue: self, tenant: id, request, is_over: false };
        let admission = tokio::time::timeout(MAX_QUEUE_WAIT, waiter).await;
        match admission {
            Ok(Ok(Admission::Sent { is_within, begun })) => {
                waiting.is_over = true;
                Ok(self.permit(tenant, came_at, *cost, Some(request), (is_within, begun)))
            }
            _ => {
                drop(waiting);
                self.lock().refuse(&tenant);
                let seconds = MAX_QUEUE_WAIT.as_secs();
                Err(Error::exhausted(format!("the request has waited in the queue for {seconds} s, the longest allowed time"))
                    .on(format!("{tenant} at {}", self.target))
                    .hint("send fewer requests at a time: the tenant asks for more work than the target has left for it"))
            }
        }
    }

    fn permit(
        self: &Arc<Self>,
        tenant: TenantName,
        came_at: Duration,
        cost: Cost,
        request: Option<RequestId>,
        (is_within, begun): (bool, Share),
    ) -> Permit {
        let queue = Arc::clone(self);
        Permit { queue, tenant, came_at, cost, begun, is_within, request, is_left: false }
    }

    /// Starts to watch a tenant's traffic, for this long. An earlier watch of the tenant ends.
    pub fn watch(&self, tenant: &TenantName, time: Duration) -> Result<()> {
        let now = self.clock.monotonic();
        let mut inner = self.lock();
        let tenant = inner.counted_as(tenant.clone());
        inner.tenant_id(&tenant, &self.target, now)?;
        if let Some(known) = inner.tenants.get_mut(&tenant) {
            let until = now.saturating_add(time);
            known.watched = Some(Watched { envelope: Envelope::new(now), until });
        }
        Ok(())
    }

    /// A report of this process about the target.
    pub fn report(&self) -> TargetReport {
        let now = self.clock.monotonic();
        let inner = &mut *self.lock();
        let scheduler = &mut inner.scheduler;
        let tenants = inner.tenants.iter_mut().map(|(name, tenant)| {
            let state = scheduler.tenant(tenant.id, now);
            tenant.report(name, state, now)
        });
        let tenants = tenants.collect();
        TargetReport {
            target: self.target.to_string(),
            is_enforced: inner.state.is_enforced,
            queued: inner.scheduler.queued(),
            outstanding: inner.device.outstanding(),
            busy_seconds: inner.device.busy_seconds(now),
            drift: inner.drift.ratio(now),
            direct: inner.direct,
            decided_by_program: inner.ordering.decided(),
            tenants,
        }
    }

    /// Counts of the requests that this process has sent to the target.
    pub fn sent(&self) -> (TargetName, IoCounts) {
        (self.target.clone(), self.lock().sent)
    }

    /// See [`NodeSlo::note_direct`](super::NodeSlo::note_direct).
    pub fn note_direct(&self, earlier: Option<&Reading>, now: Option<&Reading>) {
        let at = self.clock.monotonic();
        let inner = &mut *self.lock();
        let profile = inner.state.profiles.get(&self.target).map(|stored| &stored.profile);
        inner.direct = match (earlier, now, profile) {
            (Some(earlier), Some(now), Some(profile)) => now.direct_since(earlier, profile),
            _ => None,
        };
        let (Some(direct), Some(earlier), Some(now)) = (inner.direct, earlier, now) else { return };
        let background = inner.tenant_id(&background_tenant(), &self.target, at);
        if let Ok(background) = background {
            let passed = now.at.saturating_sub(earlier.at).as_secs_f64();
            inner.scheduler.charge(background, direct.load * passed, at);
        }
    }

    /// The latencies since the process started, of tenants with a promise.
    pub fn histograms(&self) -> Vec<(TargetName, TenantName, HistogramSnapshot)> {
        let inner = self.lock();
        let promised =
            inner.tenants.iter().filter(|(name, _)| inner.state.promises.contains_key(name));
        let own = |(name, tenant): (&TenantName, &Tenant)| {
            (self.target.clone(), name.clone(), tenant.meter.total.snapshot())
        };
        promised.map(own).collect()
    }

    /// Promises that were missed since the last call.
    pub fn take_misses(&self) -> Vec<Miss> {
        let inner = &mut *self.lock();
        let state = Arc::clone(&inner.state);
        let misses = inner.tenants.iter_mut().filter_map(|(name, tenant)| {
            let (of_requests, requests, worst, cause) = tenant.meter.take_untold()?;
            let slo_seconds = state.promises.get(name)?.slo_seconds;
            let (tenant, target) = (name.clone(), self.target.clone());
            let worst_seconds = worst.as_secs_f64();
            Some(Miss { tenant, target, slo_seconds, requests, of_requests, worst_seconds, cause })
        });
        misses.collect()
    }
}

impl Inner {
    fn limits(&self, target: &TargetName) -> DeviceLimits {
        let whole = self.state.profiles.get(target).map(|stored| stored.outstanding);
        // At a target without a profile, no tenant has a promise.
        let whole = whole.unwrap_or(MAX_OUTSTANDING_IN_GROUPS);
        self.parts.as_ref().map_or(whole, |parts| parts.limits(whole))
    }

    /// Passes the present settings and limits to the scheduler.
    fn settle(&mut self, target: &TargetName, now: Duration) {
        self.have_parts_ended = self.parts.as_ref().is_some_and(|parts| parts.have_ended(now));
        let limits = self.limits(target);
        // If the map has invalid limits, the previous limits stay.
        let _ = self.scheduler.set_limits(limits);
        self.device.set_depth(limits.writes.requests, now);
        let known: Vec<_> = self.tenants.iter().map(|(name, own)| (name.clone(), own.id)).collect();
        for (name, id) in known {
            let settings = self.settings(&name, target);
            let _ = self.scheduler.set_tenant(id, settings, now);
        }
        self.send_what_may_go(now);
    }

    /// Stops using fractions of promises once their lease is over. Each request calls this first.
    /// So even a process that was paused uses no fraction after its lease.
    fn end_parts(&mut self, target: &TargetName, now: Duration) {
        let have_ended = self.parts.as_ref().is_some_and(|parts| parts.have_ended(now));
        if have_ended && !self.have_parts_ended {
            self.settle(target, now);
        }
    }

    /// The settings of a tenant. Promises have priorities from 1 on; nacre's own requests have
    /// priority 0.
    fn settings(&self, tenant: &TenantName, target: &TargetName) -> TenantSettings {
        if *tenant == system_tenant() {
            let bucket = RateBurst { rate: SYSTEM_RATE, burst_seconds: SYSTEM_BURST_SECONDS };
            return TenantSettings::promised(0, vec![bucket]);
        }
        let promised = self.state.promises.get(tenant).and_then(|promise| {
            let bucket = promise.bucket_at(target)?;
            let bucket = match &self.parts {
                Some(_) if self.have_parts_ended => Parts::NOTHING,
                Some(parts) => parts.of(bucket, &shared(target, tenant)),
                None => bucket,
            };
            Some(TenantSettings::promised(promise.priority.saturating_add(1), vec![bucket]))
        });
        let usual = if *tenant == background_tenant() { BACKGROUND_WEIGHT } else { 1.0 };
        let weight = self.state.weights.get(tenant).copied().unwrap_or(usual);
        promised.unwrap_or_else(|| TenantSettings::weighted(weight))
    }

    /// The name under which a tenant's requests are counted. Once too many tenants are counted,
    /// further tenants without a promise share one name.
    fn counted_as(&self, tenant: TenantName) -> TenantName {
        let is_told_apart = self.tenants.len() < MAX_METERED_TENANTS
            || self.tenants.contains_key(&tenant)
            || self.state.promises.contains_key(&tenant);
        if is_told_apart { tenant } else { self.others.clone() }
    }

    fn tenant_id(
        &mut self,
        tenant: &TenantName,
        target: &TargetName,
        now: Duration,
    ) -> Result<TenantId> {
        if let Some(known) = self.tenants.get(tenant) {
            return Ok(known.id);
        }
        let id = self.scheduler.add_tenant(self.settings(tenant, target), now)?;
        self.ordering.name(id, tenant);
        self.tenants.insert(tenant.clone(), Tenant { id, meter: Meter::default(), watched: None });
        Ok(id)
    }

    /// Counts a request that was refused.
    fn refuse(&mut self, tenant: &TenantName) {
        let is_promised = self.state.promises.contains_key(tenant);
        self.meter(tenant).refuse(is_promised);
    }

    fn meter(&mut self, tenant: &TenantName) -> &mut Meter {
        &mut self.tenants.get_mut(tenant).expect("a request makes its tenant known").meter
    }

    /// If the tenant is watched, adds a request's work to its arrival curve, at the time at which
    /// the request arrived.
    fn watch(&mut self, tenant: &TenantName, work_seconds: f64, came_at: Duration, now: Duration) {
        let Some(tenant) = self.tenants.get_mut(tenant) else { return };
        tenant.watched.take_if(|watched| watched.until < now);
        if let Some(watched) = &mut tenant.watched {
            watched.envelope.record(work_seconds, came_at);
        }
    }

    fn request(
        &self,
        tenant: TenantId,
        cost: &Cost,
        target: &TargetName,
        now: Duration,
    ) -> NewRequest {
        let work = match (cost.charging, self.profile_work(target, cost, u64::from(cost.bytes))) {
            (Charging::Before, Some(seconds)) => Work::seconds(seconds).unwrap_or(Work::UNKNOWN),
            _ => Work::UNKNOWN,
        };
        let deadline = Some(now.saturating_add(MAX_QUEUE_WAIT));
        NewRequest { tenant, kind: cost.kind, bytes: cost.bytes, work, deadline }
    }

    /// The work of a request that moves `bytes` bytes, by the target's profile; `None` without a
    /// profile.
    fn profile_work(&self, target: &TargetName, cost: &Cost, bytes: u64) -> Option<f64> {
        let stored = self.state.profiles.get(target)?;
        Some(stored.profile.work_seconds(cost.kind, bytes))
    }

    /// Sends every request that may go now, and wakes its waiter.
    fn send_what_may_go(&mut self, now: Duration) {
        loop {
            match self.ordering.next(&mut self.scheduler, &self.state, now) {
                Next::Send(sent) => {
                    let begun = self.device.begin(now);
                    let admission = Admission::Sent { is_within: sent.is_within, begun };
                    let waiter = self.waiting.remove(&sent.request);
                    let is_awaited = waiter.is_some_and(|waiter| waiter.send(admission).is_ok());
                    if !is_awaited {
                        self.device.end(begun, now);
                        self.scheduler.complete(sent.request, Some(0.0), now);
                    }
                }
                Next::Expired(request) => {
                    if let Some(waiter) = self.waiting.remove(&request) {
                        let _ = waiter.send(Admission::Expired);
                    }
                }
                Next::Nothing { .. } => return,
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let now = self.queue.clock.monotonic();
        let mut inner = self.queue.lock();
        if inner.waiting.remove(&self.request).is_some() {
            inner.scheduler.cancel(self.tenant, self.request, now);
        } else if inner.scheduler.complete(self.request, Some(0.0), now) {
            // The scheduler sent the request, but its future was dropped. The device clock has
            // counted it already.
            inner.device.forget(now);
        }
        inner.send_what_may_go(now);
    }
}
