//! The requests at the device, and whether it may get another one.

use std::collections::{BTreeMap, VecDeque};

use super::{DeviceLimits, RequestId, TenantId};
use crate::IoKind;

/// The priority of a request of a tenant outside its limits or without a promise. It is below all
/// other priorities.
pub(super) const LOWEST_PRIORITY: u32 = u32::MAX;

/// A request at the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) tenant: TenantId,
    pub(super) kind: IoKind,
    pub(super) bytes: u32,
    /// The work that was charged when the request arrived.
    pub(super) charged_seconds: f64,
    /// The priority with which the request was sent.
    pub(super) priority: u32,
    is_overdue: bool,
}

impl InFlight {
    pub(super) fn new(
        tenant: TenantId,
        kind: IoKind,
        bytes: u32,
        charged_seconds: f64,
        priority: u32,
    ) -> Self {
        Self { tenant, kind, bytes, charged_seconds, priority, is_overdue: false }
    }

    /// Whether it was sent within the limits of its tenant.
    pub(super) fn was_within(&self) -> bool {
        self.priority != LOWEST_PRIORITY
    }
}

/// The outstanding requests: sent to the device and not completed.
///
/// The device serves requests in any order. If the requests sent after some request could fill the
/// device, that request is *overdue*. Then no request of lower priority is sent, so that it does
/// not delay the overdue request further.
#[derive(Debug)]
pub(super) struct Outstanding {
    limits: DeviceLimits,
    requests: BTreeMap<RequestId, InFlight>,
    /// The outstanding amount of each kind, by [`IoKind::index`].
    of_kind: [Amount; 2],
    sent: Amount,
    /// The requests that are not overdue, in the order of sending. Each has the amount of all
    /// requests sent up to and including it. Completed requests may remain in this list for a
    /// while.
    young: VecDeque<(RequestId, Amount)>,
    /// The priorities of overdue requests, each with the number of such requests.
    overdue: BTreeMap<u32, usize>,
}

/// A number of requests, and the sum of their bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    requests: u64,
    bytes: u64,
}

impl Outstanding {
    pub(super) fn new(limits: DeviceLimits) -> Self {
        Self {
            limits,
            requests: BTreeMap::new(),
            of_kind: [Amount::default(); 2],
            sent: Amount::default(),
            young: VecDeque::new(),
            overdue: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Changes the limits. Outstanding requests stay at the device.
    pub(super) fn set_limits(&mut self, limits: DeviceLimits) {
        self.limits = limits;
        self.find_overdue();
    }

    /// Whether another request of this kind may be sent.
    pub(super) fn has_room(&self, kind: IoKind) -> bool {
        let (limits, amount) = (self.limits.of(kind), self.of_kind[kind.index()]);
        amount.requests < limits.requests as u64 && amount.bytes < limits.bytes
    }

    /// Whether an overdue request holds back requests of this priority.
    pub(super) fn holds_back(&self, priority: u32) -> bool {
        self.overdue.first_key_value().is_some_and(|(overdue, _)| *overdue < priority)
    }

    pub(super) fn send(&mut self, id: RequestId, request: InFlight) {
        let amount = &mut self.of_kind[request.kind.index()];
        amount.requests += 1;
        amount.bytes += u64::from(request.bytes);
        self.sent.requests += 1;
        self.sent.bytes += u64::from(request.bytes);
        self.young.push_back((id, self.sent));
        self.requests.insert(id, request);
        self.find_overdue();
    }

    pub(super) fn complete(&mut self, id: RequestId) -> Option<InFlight> {
        let request = self.requests.remove(&id)?;
        let amount = &mut self.of_kind[request.kind.index()];
        amount.requests -= 1;
        amount.bytes -= u64::from(request.bytes);
        if request.is_overdue
            && let Some(count) = self.overdue.get_mut(&request.priority)
        {
            *count -= 1;
            if *count == 0 {
                self.overdue.remove(&request.priority);
            }
        }
        // Removes completed requests, so that the list does not grow.
        while self.young.front().is_some_and(|(id, _)| !self.requests.contains_key(id)) {
            self.young.pop_front();
        }
        Some(request)
    }

    /// Whether the requests sent since `up_to` could fill the device. They could if their number or
    /// their bytes reach the sum of the limits for reads and writes.
    fn has_sent_full_device_since(&self, up_to: Amount) -> bool {
        let DeviceLimits { reads, writes } = self.limits;
        self.sent.requests - up_to.requests >= self.limits.blocking_requests() as u64
            || self.sent.bytes - up_to.bytes >= reads.bytes.saturating_add(writes.bytes)
    }

    fn find_overdue(&mut self) {
        while let Some((id, up_to)) = self.young.front().copied()
            && self.has_sent_full_device_since(up_to)
        {
            self.young.pop_front();
            if let Some(request) = self.requests.get_mut(&id) {
                request.is_overdue = true;
                *self.overdue.entry(request.priority).or_default() += 1;
            }
        }
    }
}
