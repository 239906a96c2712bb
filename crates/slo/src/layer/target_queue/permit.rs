//! `Permit`: a request that may go to the engine, until it has ended.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::TenantName;
use nacre_qos::scheduler::RequestId;

use super::{Inner, TargetQueue};
use crate::layer::MissCause;
use crate::layer::cost::{Charging, Cost};
use crate::layer::device_clock::Share;

/// If direct traffic takes at least this fraction of a target's time, it counts as the cause of
/// missed promises.
const NOTABLE_LOAD: f64 = 0.05;

/// A request that may go to the engine.
#[derive(Debug)]
pub(in crate::layer) struct Permit {
    pub(super) queue: Arc<TargetQueue>,
    pub(super) tenant: TenantName,
    pub(super) came_at: Duration,
    pub(super) cost: Cost,
    pub(super) begun: Share,
    pub(super) is_within: bool,
    /// `None` if the request did not pass the scheduler, because promises are not enforced.
    pub(super) request: Option<RequestId>,
    pub(super) is_left: bool,
}

impl Permit {
    /// Ends the request. `moved_bytes` counts the bytes of the request and its reply; it is `None`
    /// if the request failed.
    pub fn leave(mut self, moved_bytes: Option<u64>) {
        self.end(moved_bytes, true);
    }

    fn end(&mut self, moved_bytes: Option<u64>, is_answered: bool) {
        self.is_left = true;
        let queue = Arc::clone(&self.queue);
        let now = queue.clock.monotonic();
        let inner = &mut *queue.lock();
        let took = inner.device.end(self.begun, now);
        let bytes = moved_bytes.unwrap_or(self.cost.bytes.into());
        inner.sent.add(self.cost.kind, bytes);
        let by_profile = inner.profile_work(&queue.target, &self.cost, bytes);
        let work = match (self.cost.charging, by_profile) {
            (Charging::Before | Charging::ByReply, Some(seconds)) => {
                inner.drift.add(took.seconds, seconds, now);
                seconds
            }
            (Charging::ByTime, Some(seconds)) => took.call_seconds.max(seconds),
            (Charging::ByTimeAlone, _) | (_, None) => took.call_seconds,
        };
        if let Some(request) = self.request {
            inner.scheduler.complete(request, Some(work), now);
        }
        inner.meter(&self.tenant).work_seconds += work;
        inner.watch(&self.tenant, work, self.came_at, now);
        if is_answered {
            self.measure(inner, now.saturating_sub(self.came_at), now);
        }
        inner.send_what_may_go(now);
    }

    fn measure(&self, inner: &mut Inner, latency: Duration, now: Duration) {
        let promised = inner.state.promises.get(&self.tenant).map(|promise| promise.slo_seconds);
        let is_missed = promised.is_some_and(|slo| latency.as_secs_f64() > slo);
        let cause = match () {
            () if self.request.is_none() => MissCause::NotEnforced,
            () if !self.is_within => MissCause::OutsideEnvelope,
            () if inner.direct.is_some_and(|direct| direct.load >= NOTABLE_LOAD) => {
                MissCause::DirectTraffic
            }
            () if inner.drift.ratio(now).is_some_and(|drift| drift > 1.0) => {
                MissCause::ProfileDrifted
            }
            () => MissCause::Background,
        };
        let meter = inner.meter(&self.tenant);
        meter.record(latency, self.is_within, now);
        if is_missed {
            meter.miss(latency, cause);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_left {
            self.end(None, false);
        }
    }
}
