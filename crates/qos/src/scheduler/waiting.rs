//! Lets another order than the built-in one ([`super`] defines it) choose the next tenant from a
//! list. Order programs use it.
//!
//! The scheduler passes the order a list of tenants with requests, and the order names one of them.
//! If the device has room for that tenant's request, the request is sent. Otherwise no request is
//! sent until the device completes one. So the device is never idle while requests wait, whatever
//! the order chooses.

use std::time::Duration;

use super::in_flight::LOWEST_PRIORITY;
use super::order::Standing;
use super::{Next, RequestId, Scheduler, Share, TenantId, Time};
use crate::IoKind;
use crate::limits::MAX_OFFERED_TENANTS;

/// A tenant that has requests, with the first of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// The tenant.
    pub tenant: TenantId,
    /// Its next request.
    pub request: RequestId,
    /// Whether the request reads or writes.
    pub kind: IoKind,
    /// The bytes that it moves.
    pub bytes: u32,
    /// The work of the request, if it is known.
    pub work_seconds: Option<f64>,
    /// How long it has waited.
    pub waited: Duration,
    /// Whether the tenant is within its limits.
    pub is_within: bool,
    /// How many seconds ago the tenant's buckets began to cover the request; negative if they do
    /// not cover it yet.
    pub ready_seconds: f64,
    /// The priority of the tenant, if it has a promise. Lower numbers are served first.
    pub priority: Option<u32>,
    /// Its weight; 1 if it has a promise.
    pub weight: f64,
    /// The tenant's work that was sent, divided by its weight. When an idle tenant gets a request,
    /// its share rises at least to that of the tenant that was served last.
    pub share: f64,
    /// The share as the built-in order counts it, only among tenants without a promise.
    pub left_over_share: f64,
    /// How many requests of the tenant's group were sent, divided by the weight of the group. There
    /// are two groups: the tenants outside their limits, and the tenants without a promise. The
    /// built-in order divides between them the capacity that the tenants within their limits leave.
    pub group_share: f64,
    /// A number that grows each time a tenant is served or begins to wait.
    pub turn: u64,
    /// Whether the device has room for the request now.
    pub has_room: bool,
}

impl Waiting {
    fn sent_with_priority(&self) -> u32 {
        match self.priority {
            Some(priority) if self.is_within => priority,
            _ => LOWEST_PRIORITY,
        }
    }
}

/// Chooses whose request is sent next.
pub trait ServiceOrder {
    /// Returns the index of the chosen tenant in `waiting`, which has at least two tenants. `None`
    /// leaves this decision to the built-in order.
    fn choose(&mut self, waiting: &[Waiting]) -> Option<usize>;
}

impl Scheduler {
    /// Like [`Scheduler::next`], but `order` chooses the tenant. `order` is not called if only one
    /// tenant waits, or if the device has no room for any request.
    pub fn next_by(&mut self, order: &mut dyn ServiceOrder, now: Time) -> Next {
        self.fair.get_or_insert_default();
        self.next_of(now, |scheduler| scheduler.choose_by(order, now))
    }

    fn choose_by(&self, order: &mut dyn ServiceOrder, now: Time) -> Option<(TenantId, u32)> {
        let waiting = self.waiting(now);
        if !waiting.iter().any(|waiting| waiting.has_room) {
            return None;
        }
        let chosen = match &waiting[..] {
            [only] => Some(only),
            several => order.choose(several).and_then(|place| several.get(place)),
        };
        match chosen {
            Some(chosen) => chosen.has_room.then(|| (chosen.tenant, chosen.sent_with_priority())),
            None => self.choose(),
        }
    }

    /// The tenants to choose from, in the built-in order.
    fn waiting(&self, now: Time) -> Vec<Waiting> {
        let foremost = self.order.foremost(MAX_OFFERED_TENANTS, self.kinds_with_room());
        foremost.into_iter().filter_map(|tenant| self.waiting_of(tenant, now)).collect()
    }

    fn waiting_of(&self, id: TenantId, now: Time) -> Option<Waiting> {
        let slot = self.slots.get(id.slot)?.as_ref()?;
        let (entry, head) = (slot.entry?, slot.tenant.queue.front()?);
        let share = &slot.tenant.settings.share;
        let priority = match share {
            Share::Promised { priority, .. } => Some((*priority).min(LOWEST_PRIORITY - 1)),
            Share::Weighted { .. } => None,
        };
        let (since, until) =
            (now.saturating_sub(head.within_at), head.within_at.saturating_sub(now));
        let mut waiting = Waiting {
            tenant: id,
            request: head.id,
            kind: head.kind,
            bytes: head.bytes,
            work_seconds: head.work.known(),
            waited: now.saturating_sub(head.came_at),
            is_within: matches!(entry.standing, Standing::Within { .. }),
            ready_seconds: since.as_secs_f64() - until.as_secs_f64(),
            priority,
            weight: share.weight(),
            share: self.fair.as_ref().map_or(0.0, |fair| fair.of(id)),
            left_over_share: slot.pass.0,
            group_share: self.order.group_pass(entry.standing),
            turn: entry.turn,
            has_room: false,
        };
        waiting.has_room = self.outstanding.has_room(head.kind)
            && !self.outstanding.holds_back(waiting.sent_with_priority());
        Some(waiting)
    }
}
