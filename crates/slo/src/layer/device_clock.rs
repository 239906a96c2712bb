//! `DeviceClock`: divides the time of a busy target among the requests that it serves. The work of
//! a method call is not known beforehand, so this measurement decides its charge.
//!
//! A target serves up to `depth` requests in parallel. While it has `n` requests, each is charged
//! `1 / max(n, depth)` of the time: a virtual clock runs at this fraction of the speed of time. The
//! work of a request is the difference of the virtual clock between its start and its end. While
//! the target has `depth` requests or more, the work of all requests adds up to the whole time.
//!
//! A target that commits writes in groups serves far more writes than method calls in parallel. So
//! a second virtual clock, with its own depth, measures calls.

use std::time::Duration;

use crate::limits::CALLS_SIDE_BY_SIDE;

/// The clock of one target.
#[derive(Debug)]
pub(super) struct DeviceClock {
    depth: usize,
    outstanding: usize,
    /// The virtual clock: the work of a request that has run since the clock started.
    virtual_time: Share,
    busy_seconds: f64,
    read_at: Duration,
}

/// The work of one request, in seconds of a target's time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Share {
    /// The work if the target serves `depth` requests in parallel.
    pub seconds: f64,
    /// The work if the target serves [`CALLS_SIDE_BY_SIDE`] requests in parallel.
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

    /// Changes how many requests the target serves in parallel.
    pub fn set_depth(&mut self, depth: usize, now: Duration) {
        self.advance(now);
        self.depth = depth.max(1);
    }

    /// Records that a request is sent to the target. Pass the result to [`end`](Self::end) when it
    /// is done.
    pub fn begin(&mut self, now: Duration) -> Share {
        self.advance(now);
        self.outstanding += 1;
        self.virtual_time
    }

    /// Records that a request is done. Returns its work.
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

    /// For how long the target was busy. While it has only `n` requests, fewer than `depth`, the
    /// fraction `n / depth` of the time counts.
    pub fn busy_seconds(&mut self, now: Duration) -> f64 {
        self.advance(now);
        self.busy_seconds
    }

    /// How many requests are at the target.
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
        // The target serves two requests in parallel, so the first request had half of its time for
        // all four seconds.
        assert_eq!(clock.end(first, at(14)).seconds, 2.0);
        assert_eq!(clock.end(second, at(18)).seconds, 3.0);
        assert_eq!((clock.busy_seconds(at(99)), clock.outstanding()), (5.0, 0));
    }

    #[test]
    fn parallel_requests_beyond_the_depth_are_charged_the_whole_time_together() {
        let at = Duration::from_secs;
        let mut clock = DeviceClock::new(1);
        let begun: Vec<_> = (0..4).map(|_| clock.begin(at(0))).collect();
        let work: Vec<_> = begun.into_iter().map(|begun| clock.end(begun, at(8)).seconds).collect();
        assert_eq!(work, [2.0; 4]);
    }

    #[test]
    fn a_method_call_is_measured_by_the_lower_depth_for_calls() {
        let at = Duration::from_secs;
        let mut clock = DeviceClock::new(4 * CALLS_SIDE_BY_SIDE);
        let begun = clock.begin(at(0));
        let share = clock.end(begun, at(64));
        let call_seconds = 64.0 / CALLS_SIDE_BY_SIDE as f64;
        assert_eq!(share, Share { seconds: call_seconds / 4.0, call_seconds });
    }
}
