//! `ThroughputBound`: decides whether a file system serves far fewer requests since a new policy is
//! active. It has no side effects.

use std::time::Duration;

/// Below this rate a file system counts as idle, and a drop of its requests says nothing about a
/// policy.
const IDLE_REQUESTS_PER_SECOND: f64 = 10.0;

/// Whether a file system serves clearly less than before.
#[derive(Debug)]
pub struct ThroughputBound {
    /// Requests a second before the switch.
    before: f64,
    /// Fewer than these are too few; `None` if the file system was idle before.
    least: Option<f64>,
    /// For how long the ranks may serve too few requests. While a directory migrates, no rank
    /// serves it for a short time.
    patience: Duration,
    below_since: Option<Duration>,
}

impl ThroughputBound {
    /// The bound for a file system that served `before` requests a second. A drop by more than
    /// `max_drop_percent` must end within `patience`.
    pub fn new(before: f64, max_drop_percent: f64, patience: Duration) -> Self {
        let is_busy = before >= IDLE_REQUESTS_PER_SECOND;
        let least = is_busy.then_some(before * (1.0 - max_drop_percent / 100.0));
        Self { before, least, patience, below_since: None }
    }

    /// Whether the file system was busy before the switch. On an idle file system a drop means
    /// nothing.
    pub fn is_watched(&self) -> bool {
        self.least.is_some()
    }

    /// Adds a sample; `now` must never go back. Returns a message if the requests have been too few
    /// for longer than `patience`.
    pub fn hear(&mut self, now: Duration, requests_per_second: f64) -> Option<String> {
        let least = self.least?;
        if requests_per_second >= least {
            self.below_since = None;
            return None;
        }
        let since = *self.below_since.get_or_insert(now);
        (now - since >= self.patience).then(|| {
            format!(
                "requests fell from {:.0} to {requests_per_second:.0} a second, below {least:.0}",
                self.before
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_drop_of_requests_counts_once_it_has_lasted_for_a_tick() {
        let mut bound = ThroughputBound::new(1000.0, 50.0, TICK);
        assert_eq!(bound.hear(seconds(0), 499.0), None);
        assert_eq!(bound.hear(seconds(9), 499.0), None);
        let said = bound.hear(seconds(10), 400.0).unwrap();
        assert_eq!(said, "requests fell from 1000 to 400 a second, below 500");
    }

    #[test]
    fn a_drop_of_requests_that_ends_within_a_tick_is_forgotten() {
        let mut bound = ThroughputBound::new(1000.0, 50.0, TICK);
        assert_eq!(bound.hear(seconds(0), 0.0), None);
        assert_eq!(bound.hear(seconds(9), 500.0), None);
        assert_eq!(bound.hear(seconds(12), 0.0), None);
        assert_eq!(bound.hear(seconds(21), 0.0), None);
        assert!(bound.hear(seconds(22), 0.0).is_some());
    }

    #[test]
    fn an_idle_file_system_is_not_watched() {
        let mut bound = ThroughputBound::new(9.0, 50.0, TICK);
        assert!(!bound.is_watched());
        assert_eq!(bound.hear(seconds(0), 0.0).or(bound.hear(seconds(99), 0.0)), None);
    }
}
