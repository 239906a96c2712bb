//! `DeviceClock`: divides the time of a busy target among the requests that it served.
//!
//! A target serves up to `depth` requests in parallel. While it has `n` requests, each one gets
//! `1 / max(n, depth)` of the time. The virtual clock runs at that rate. The work of a request is
//! the difference between two readings of the virtual clock, at its start and at its end. The
//! shares add up to the whole time while the target has `depth` requests or more. Only this
//! measurement tells how much work a method is.
//!
//! A target that commits writes in groups takes far more writes in parallel than methods that
//! compute. So a second virtual clock, for calls, has a `depth` of its own.

use std::time::Duration;

use crate::limits::CALLS_SIDE_BY_SIDE;

/// The clock of one target.
#[derive(Debug)]
pub(super) struct DeviceClock {
    depth: usize,
    outstanding: usize,
    /// How much of the target one request has had since the clock started.
    virtual_time: Share,
    busy_seconds: f64,
    read_at: Duration,
}

/// How much of a target one request has had.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Share {
    /// The work if the target counts as full with `depth` requests.
    pub seconds: f64,
    /// If it is full with [`CALLS_SIDE_BY_SIDE`] requests.
    pub call_seconds: f64,
}

impl DeviceClock {
    /// The clock of an idle target that serves `depth` requests in parallel.
    pub fn new(depth: usize) -> Self {
        Self {
            depth: depth.max(1),
            outstanding: 0,
            virtual_time: Share::default(),
            busy_seconds: 0.0,
            read_at: Duration::ZERO,
        }
    }

    /// From now on it serves so many.
    pub fn set_depth(&mut self, depth: usize, now: Duration) {
        self.advance(now);
        self.depth = depth.max(1);
    }

    /// Records that a request is sent to the target. Returns the reading that [`end`](Self::end)
    /// needs.
    pub fn begin(&mut self, now: Duration) -> Share {
        self.advance(now);
        self.outstanding += 1;
        self.virtual_time
    }

    /// Records that a request is done. Returns how much of the target it had.
    pub fn end(&mut self, begun: Share, now: Duration) -> Share {
        self.advance(now);
        self.outstanding = self.outstanding.saturating_sub(1);
        let Share { seconds, call_seconds } = self.virtual_time;
        Share {
            seconds: (seconds - begun.seconds).max(0.0),
            call_seconds: (call_seconds - begun.call_seconds).max(0.0),
        }
    }

    /// Forgets a request that was begun but never sent to the target.
    pub fn forget(&mut self, now: Duration) {
        self.end(Share::default(), now);
    }

    /// The time for which the target was busy. While it has fewer than `depth` requests, only that
    /// fraction of the time counts.
    pub fn busy_seconds(&mut self, now: Duration) -> f64 {
        self.advance(now);
        self.busy_seconds
    }

    /// Requests at the target.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.read_at).as_secs_f64();
        self.read_at = self.read_at.max(now);
        let share = |depth: usize| passed / self.outstanding.max(depth) as f64;
        let (seconds, call_seconds) =
            (share(self.depth), share(self.depth.min(CALLS_SIDE_BY_SIDE)));
        self.virtual_time.seconds += seconds;
        self.virtual_time.call_seconds += call_seconds;
        self.busy_seconds += seconds * self.outstanding as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_requests_share_the_time_of_the_target() {
        let at = Duration::from_secs;
        let mut clock = DeviceClock::new(2);
        let first = clock.begin(at(10));
        let second = clock.begin(at(12));
        // For two seconds it had half of the target, and for two it shared the target with the
        // other request.
        assert_eq!(clock.end(first, at(14)).seconds, 2.0);
        assert_eq!(clock.end(second, at(18)).seconds, 3.0);
        assert_eq!((clock.busy_seconds(at(99)), clock.outstanding()), (5.0, 0));
    }

    #[test]
    fn more_requests_than_the_depth_share_the_whole_time() {
        let at = Duration::from_secs;
        let mut clock = DeviceClock::new(1);
        let begun: Vec<_> = (0..4).map(|_| clock.begin(at(0))).collect();
        let work: Vec<_> = begun.into_iter().map(|begun| clock.end(begun, at(8)).seconds).collect();
        assert_eq!(work, [2.0; 4]);
    }

    #[test]
    fn a_method_is_charged_by_the_depth_for_calls_on_a_target_with_many_writes() {
        let at = Duration::from_secs;
        let mut clock = DeviceClock::new(4 * CALLS_SIDE_BY_SIDE);
        let begun = clock.begin(at(0));
        let share = clock.end(begun, at(64));
        let call_seconds = 64.0 / CALLS_SIDE_BY_SIDE as f64;
        assert_eq!(share, Share { seconds: call_seconds / 4.0, call_seconds });
    }
}
