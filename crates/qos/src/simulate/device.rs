//! A simulated device, which serves the requests that the scheduler sends.

use std::collections::VecDeque;
use std::time::Duration;

use super::{NextGroup, SimulatedDevice};
use crate::IoKind;
use crate::scheduler::{DeviceLimits, KindLimits, RequestId, Time};

/// A request at the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct AtDevice {
    pub(super) id: RequestId,
    pub(super) kind: IoKind,
    pub(super) bytes: u32,
    /// The work of the request, as it was charged to its tenant.
    pub(super) work: Duration,
}

/// Requests that the device serves one after the other, or in groups.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<AtDevice>,
    serving: Vec<RequestId>,
}

/// A simulated device. Its lanes serve requests at the same time: a serial device has one lane, and
/// a device that commits in groups has one for reads and one for writes.
#[derive(Debug)]
pub(super) struct Device {
    kind: SimulatedDevice,
    limits: DeviceLimits,
    lanes: [Lane; 2],
}

impl Device {
    pub(super) fn new(kind: SimulatedDevice, limits: DeviceLimits) -> Self {
        Self { kind, limits, lanes: [Lane::default(), Lane::default()] }
    }

    pub(super) fn send(&mut self, request: AtDevice) {
        let lane = match self.kind {
            SimulatedDevice::Serial => 0,
            SimulatedDevice::Groups { .. } => request.kind.index(),
        };
        self.lanes[lane].waiting.push_back(request);
    }

    /// Whether the device starts to serve its present requests before it gets further ones.
    pub(super) fn begins_at_once(&self) -> bool {
        matches!(self.kind, SimulatedDevice::Groups { next: NextGroup::AtOnce, .. })
    }

    /// Starts each idle lane (a queue of the device) that has requests. Returns the started lanes,
    /// each with the time at which it will be done.
    pub(super) fn begin(&mut self, now: Time) -> Vec<(usize, Time)> {
        let (kind, writes) = (self.kind, self.limits.writes);
        let mut begun = vec![];
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.serving.is_empty() || lane.waiting.is_empty() {
                continue;
            }
            let takes = match kind {
                SimulatedDevice::Groups { sync, .. } if number == IoKind::Write.index() => {
                    lane.begin_group(sync, writes)
                }
                SimulatedDevice::Groups { .. } | SimulatedDevice::Serial => lane.begin_one(),
            };
            begun.push((number, now + takes));
        }
        begun
    }

    /// Takes the requests that a lane has served.
    pub(super) fn finish(&mut self, lane: usize) -> Vec<RequestId> {
        std::mem::take(&mut self.lanes[lane].serving)
    }
}

impl Lane {
    fn begin_one(&mut self) -> Duration {
        let next = self.waiting.pop_front();
        self.serving.extend(next.map(|request| request.id));
        next.map_or(Duration::ZERO, |request| request.work)
    }

    fn begin_group(&mut self, sync: Duration, limits: KindLimits) -> Duration {
        let group: Vec<_> = self.waiting.drain(..).collect();
        self.serving.extend(group.iter().map(|request| request.id));
        let own =
            |request: &AtDevice| request.work.saturating_sub(part_of_syncs(request, sync, limits));
        sync + group.iter().map(own).sum::<Duration>()
    }
}

/// The part of a write's work that stands for the two syncs of a full device.
fn part_of_syncs(request: &AtDevice, sync: Duration, limits: KindLimits) -> Duration {
    let by_requests = 1.0 / limits.requests as f64;
    let by_bytes = f64::from(request.bytes) / limits.bytes as f64;
    sync.mul_f64(2.0 * by_requests.max(by_bytes))
}
