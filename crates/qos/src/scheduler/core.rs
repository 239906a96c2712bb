//! `Scheduler`: the queues of all tenants at one target, and the decision whose request is sent
//! next.

use std::collections::BTreeSet;
use std::time::Duration;

use nacre_object::{Error, Result};

use super::fair_shares::FairShares;
use super::in_flight::{InFlight, LOWEST_PRIORITY, Outstanding};
use super::order::{Entry, LEAST_SHARED_SECONDS, Order, Pass, Standing};
use super::tenant::{Queued, Tenant};
use super::{
    DeviceLimits, NewRequest, RequestId, Share, TenantId, TenantSettings, TenantState, Ties, Time,
};
use crate::IoKind;
use crate::limits::{MAX_RETRY_WAIT, MAX_SCHEDULED_TENANTS};

/// What the caller must do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Send this request to the device.
    Send(Sent),
    /// The deadline of this request has passed, so answer it with an error.
    Expired(RequestId),
    /// Send nothing until a request arrives or completes, or until a deadline passes.
    Nothing {
        /// The earliest deadline of a request that waits.
        deadline: Option<Time>,
    },
}

/// A request that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The tenant of the request.
    pub tenant: TenantId,
    /// The request.
    pub request: RequestId,
    /// Whether the tenant was within its limits.
    pub is_within: bool,
}

/// Why the scheduler refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such tenant.
    NoTenant,
    /// The tenant's queue is full. Try again after this time.
    QueueFull(Duration),
    /// The request would wait for this long, which is past its deadline.
    TooLate(Duration),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoTenant => Self::not_found("this target knows no such tenant"),
            Refused::QueueFull(wait) => Self::exhausted("the queue of the tenant is full")
                .hint(format!("try again in {} ms", wait.as_millis().max(1))),
            Refused::TooLate(wait) => Self::exhausted("the request would miss its deadline")
                .hint(format!("try again in {} ms", wait.min(MAX_RETRY_WAIT).as_millis().max(1))),
        }
    }
}

#[derive(Debug)]
pub(super) struct Slot {
    id: TenantId,
    pub(super) tenant: Tenant,
    /// The tenant's entry in the order of service; `None` if it has no requests.
    pub(super) entry: Option<Entry>,
    turn: u64,
    /// For a tenant without a promise: its work that was sent, divided by its weight.
    pub(super) pass: Pass,
}

/// Decides whose request is sent next to one target.
#[derive(Debug)]
pub struct Scheduler {
    ties: Ties,
    pub(super) slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// How many tenants were added so far.
    added: u64,
    pub(super) order: Order,
    pub(super) outstanding: Outstanding,
    /// The work of each tenant since an order program began to decide; `None` while the built-in
    /// order decides.
    pub(super) fair: Option<FairShares>,
    deadlines: BTreeSet<(Time, RequestId, TenantId)>,
    next_request: u64,
    turns: u64,
    /// The pass of the tenant without a promise that was served last.
    virtual_pass: Pass,
    queued: usize,
}

impl Scheduler {
    /// Creates a scheduler without tenants.
    ///
    /// # Errors
    /// `Invalid` if `limits` allow no outstanding request.
    pub fn new(limits: DeviceLimits, ties: Ties) -> Result<Self> {
        limits.check()?;
        Ok(Self {
            ties,
            slots: vec![],
            free: vec![],
            added: 0,
            order: Order::default(),
            outstanding: Outstanding::new(limits),
            fair: None,
            deadlines: BTreeSet::new(),
            next_request: 0,
            turns: 0,
            virtual_pass: Pass::default(),
            queued: 0,
        })
    }

    /// Changes how many requests may be outstanding at the device.
    ///
    /// # Errors
    /// As [`Scheduler::new`].
    pub fn set_limits(&mut self, limits: DeviceLimits) -> Result<()> {
        limits.check()?;
        self.outstanding.set_limits(limits);
        Ok(())
    }

    /// Adds a tenant. Its token buckets are full.
    ///
    /// # Errors
    /// `Invalid` if the settings are invalid; `Exhausted` if there are too many tenants.
    pub fn add_tenant(&mut self, settings: TenantSettings, now: Time) -> Result<TenantId> {
        settings.check()?;
        if self.free.is_empty() && self.slots.len() == MAX_SCHEDULED_TENANTS {
            let message = format!(
                "the target serves {MAX_SCHEDULED_TENANTS} tenants already, the most it can"
            );
            return Err(Error::exhausted(message).hint("let several clients share a tenant"));
        }
        let at = self.free.pop().unwrap_or(self.slots.len());
        self.slots.resize_with(self.slots.len().max(at + 1), || None);
        self.added += 1;
        let id = TenantId { slot: at, added: self.added };
        let tenant = Tenant::new(settings, now);
        let pass = Pass::default();
        self.slots[at] = Some(Slot { id, tenant, entry: None, turn: 0, pass });
        Ok(id)
    }

    /// Changes the settings of a tenant. The tokens that the tenant has used stay used.
    ///
    /// # Errors
    /// `Invalid` if the settings are invalid; `NotFound` if there is no such tenant.
    pub fn set_tenant(
        &mut self,
        tenant: TenantId,
        settings: TenantSettings,
        now: Time,
    ) -> Result<()> {
        settings.check()?;
        self.refresh(now);
        let slot = self.slot(tenant).ok_or(Refused::NoTenant)?;
        slot.tenant.set(settings, now);
        self.stand(tenant, now);
        Ok(())
    }

    /// Removes a tenant. Returns its waiting requests. Its outstanding requests stay at the device.
    pub fn remove_tenant(&mut self, tenant: TenantId) -> Vec<RequestId> {
        if self.slot(tenant).is_none() {
            return vec![];
        }
        let Some(slot) = self.slots[tenant.slot].take() else { return vec![] };
        self.order.replace(slot.entry.as_ref(), None);
        if let Some(fair) = &mut self.fair {
            fair.forget(tenant);
        }
        self.free.push(tenant.slot);
        self.queued -= slot.tenant.queue.len();
        for request in &slot.tenant.queue {
            self.forget_deadline(tenant, request);
        }
        slot.tenant.queue.iter().map(|request| request.id).collect()
    }

    /// Puts a request into its tenant's queue.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn enqueue(&mut self, request: NewRequest, now: Time) -> Result<RequestId, Refused> {
        let NewRequest { tenant, deadline, .. } = request;
        self.refresh(now);
        let id = RequestId(self.next_request);
        let slot = self.slot(tenant).ok_or(Refused::NoTenant)?;
        if !slot.tenant.has_room() {
            return Err(Refused::QueueFull(slot.tenant.retry_wait(now)));
        }
        if let Some(deadline) = deadline
            && let Some(wait) = slot.tenant.expected_wait(now)
            && now.saturating_add(wait) > deadline
        {
            return Err(Refused::TooLate(wait));
        }
        let starts_to_wait = slot.tenant.queue.is_empty();
        slot.tenant.push(id, &request, now);
        self.next_request += 1;
        self.queued += 1;
        self.deadlines.extend(deadline.map(|deadline| (deadline, id, tenant)));
        if starts_to_wait {
            self.take_turn(tenant);
            self.stand(tenant, now);
        }
        Ok(id)
    }

    /// Decides what the caller must do next. Call it until it returns `Nothing`.
    pub fn next(&mut self, now: Time) -> Next {
        self.fair = None;
        self.next_of(now, Self::choose)
    }

    /// Like [`Scheduler::next`], but `choose` names the tenant that is served and the priority of
    /// its request.
    pub(super) fn next_of(
        &mut self,
        now: Time,
        choose: impl FnOnce(&Self) -> Option<(TenantId, u32)>,
    ) -> Next {
        if let Some((deadline, request, tenant)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.cancel(tenant, request, now);
            return Next::Expired(request);
        }
        self.refresh(now);
        match choose(self).and_then(|(tenant, priority)| self.send(tenant, priority, now)) {
            Some(sent) => Next::Send(sent),
            None => Next::Nothing { deadline: self.deadlines.first().map(|first| first.0) },
        }
    }

    /// Records that the device has completed a request. `work_seconds` is the true work of the
    /// request, which corrects the charge to its tenant. `None` leaves the charge as it is. Returns
    /// whether the request was outstanding.
    pub fn complete(&mut self, request: RequestId, work_seconds: Option<f64>, now: Time) -> bool {
        self.refresh(now);
        let Some(done) = self.outstanding.complete(request) else { return false };
        let was_within = done.was_within();
        let work = work_seconds.filter(|work| work.is_finite() && *work >= 0.0);
        let more = work.map_or(0.0, |work| work - done.charged_seconds);
        if more != 0.0
            && let Some(slot) = self.slots.get_mut(done.tenant.slot).and_then(Option::as_mut)
            && slot.id == done.tenant
        {
            if let Some(fair) = &mut self.fair {
                fair.charge(done.tenant, more, slot.tenant.settings.share.weight());
            }
            slot.tenant.charge(more, was_within, now);
            if let Share::Weighted { weight } = slot.tenant.settings.share {
                slot.pass.0 = (slot.pass.0 + more / weight).max(0.0);
            }
            self.stand(done.tenant, now);
        }
        true
    }

    /// Charges a tenant without a promise for work that did not pass this scheduler. Its requests
    /// then wait until other tenants without a promise have got as much work by weight. Charges do
    /// not add up: only the one counts that makes the tenant wait longest. So the tenant catches up
    /// soon after the last charge.
    pub fn charge(&mut self, tenant: TenantId, work_seconds: f64, now: Time) {
        let virtual_pass = self.virtual_pass;
        let Some(slot) = self.slot(tenant) else { return };
        if let Share::Weighted { weight } = slot.tenant.settings.share
            && work_seconds > 0.0
        {
            slot.pass = slot.pass.max(Pass(virtual_pass.0 + work_seconds / weight));
            self.stand(tenant, now);
        }
    }

    /// Cancels a waiting request. Returns whether it was waiting.
    pub fn cancel(&mut self, tenant: TenantId, request: RequestId, now: Time) -> bool {
        self.refresh(now);
        let Some(slot) = self.slot(tenant) else { return false };
        let Some(removed) = slot.tenant.remove(request, now) else { return false };
        self.queued -= 1;
        self.forget_deadline(tenant, &removed);
        self.stand(tenant, now);
        true
    }

    /// How many requests wait.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// How many requests are at the device.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The present state of a tenant.
    pub fn tenant(&mut self, tenant: TenantId, now: Time) -> Option<TenantState> {
        Some(self.slot(tenant)?.tenant.state(now))
    }

    fn slot(&mut self, tenant: TenantId) -> Option<&mut Slot> {
        self.slots.get_mut(tenant.slot)?.as_mut().filter(|slot| slot.id == tenant)
    }

    /// Updates the order of service for the tenants that have come within their limits by now.
    fn refresh(&mut self, now: Time) {
        while let Some(tenant) = self.order.come_within(now) {
            self.stand(tenant, now);
        }
    }

    fn forget_deadline(&mut self, tenant: TenantId, request: &Queued) {
        if let Some(deadline) = request.deadline {
            self.deadlines.remove(&(deadline, request.id, tenant));
        }
    }

    /// The tenant that is served next, and the priority of its request.
    pub(super) fn choose(&self) -> Option<(TenantId, u32)> {
        let (tenant, priority) = match self.order.first_within() {
            Some((priority, tenant)) => (tenant, priority),
            None => (self.order.first_left_over(self.kinds_with_room())?, LOWEST_PRIORITY),
        };
        let entry = self.slots.get(tenant.slot)?.as_ref()?.entry?;
        let can_go =
            self.outstanding.has_room(entry.kind) && !self.outstanding.holds_back(priority);
        can_go.then_some((tenant, priority))
    }

    pub(super) fn kinds_with_room(&self) -> &'static [IoKind] {
        match IoKind::ALL.map(|kind| self.outstanding.has_room(kind)) {
            [true, true] => &IoKind::ALL,
            [true, false] => &[IoKind::Read],
            [false, true] => &[IoKind::Write],
            [false, false] => &[],
        }
    }

    fn send(&mut self, tenant: TenantId, priority: u32, now: Time) -> Option<Sent> {
        let is_within = priority != LOWEST_PRIORITY;
        let slot = self.slots.get_mut(tenant.slot)?.as_mut()?;
        if let Some(entry) = &slot.entry {
            self.order.serve(entry);
        }
        let request = slot.tenant.pop(is_within, now)?;
        let work = request.work.known_seconds();
        if let Share::Weighted { weight } = slot.tenant.settings.share {
            self.virtual_pass = self.virtual_pass.max(slot.pass);
            slot.pass.0 += work.max(LEAST_SHARED_SECONDS) / weight;
        }
        if let Some(fair) = &mut self.fair {
            fair.serve(tenant, work, slot.tenant.settings.share.weight());
        }
        self.queued -= 1;
        self.forget_deadline(tenant, &request);
        let in_flight = InFlight::new(tenant, request.kind, request.bytes, work, priority);
        self.outstanding.send(request.id, in_flight);
        self.take_turn(tenant);
        self.stand(tenant, now);
        Some(Sent { tenant, request: request.id, is_within })
    }

    /// Moves a tenant behind the tenants that are equal to it in the order.
    fn take_turn(&mut self, tenant: TenantId) {
        self.turns += 1;
        let (turns, virtual_pass) = (self.turns, self.virtual_pass);
        if let Some(slot) = self.slot(tenant) {
            slot.turn = turns;
            if slot.entry.is_none() {
                // A tenant gets no extra work for its idle time.
                slot.pass = slot.pass.max(virtual_pass);
                if let Some(fair) = &mut self.fair {
                    fair.begin_to_wait(tenant);
                }
            }
        }
    }

    /// Recomputes the standing of a tenant, and its entry in the order of service.
    fn stand(&mut self, tenant: TenantId, now: Time) {
        let Some(slot) = self.slots.get_mut(tenant.slot).and_then(Option::as_mut) else { return };
        let standing = match (slot.tenant.queue.front(), &slot.tenant.settings.share) {
            (None, _) => None,
            (Some(head), Share::Weighted { weight }) => {
                Some((head.kind, Standing::Weighted { pass: slot.pass, weight: *weight }))
            }
            (Some(head), Share::Promised { priority, .. }) => {
                let (kind, priority) = (head.kind, (*priority).min(LOWEST_PRIORITY - 1));
                let first_come = (head.within_at, head.id);
                let tie = match self.ties {
                    Ties::FirstCome => first_come,
                    Ties::Turns => (Time::from_nanos(slot.turn), head.id),
                };
                let standing = match slot.tenant.within_after(now) {
                    Some(wait) if wait.is_zero() => Standing::Within { priority, tie },
                    wait => {
                        Standing::Outside { until: wait.and_then(|wait| now.checked_add(wait)) }
                    }
                };
                Some((kind, standing))
            }
        };
        let turn = slot.turn;
        let entry = standing.map(|(kind, standing)| Entry { tenant, kind, turn, standing });
        let old = std::mem::replace(&mut slot.entry, entry);
        self.order.replace(old.as_ref(), entry.as_ref());
    }
}
