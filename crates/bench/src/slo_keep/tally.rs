//! `Tally`: the latencies and failures of a tenant's requests, and the bytes that they wrote.

use std::time::Duration;

/// A failed request counts with at least this latency, after which its sender would have given up.
const FAILED: Duration = Duration::from_secs(30);

/// The requests of a tenant in some rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    latencies: Vec<Duration>,
    failed: usize,
    bytes: u64,
    measured: Duration,
}

impl Tally {
    /// An empty tally for a measurement of this length.
    pub fn of(measured: Duration) -> Self {
        Self { measured, ..Self::default() }
    }

    /// Counts a request.
    pub fn count(&mut self, latency: Duration, succeeded: bool) {
        self.failed += usize::from(!succeeded);
        self.latencies.push(if succeeded { latency } else { latency.max(FAILED) });
    }

    /// Counts bytes that were written in the measured time.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Adds the tally of another round.
    pub fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.measured += other.measured;
    }

    /// How many requests there were.
    pub fn requests(&self) -> usize {
        self.latencies.len()
    }

    /// How many requests failed.
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// How many requests were answered within this many seconds.
    pub fn within(&self, seconds: f64) -> usize {
        self.latencies.iter().filter(|latency| latency.as_secs_f64() <= seconds).count()
    }

    /// The latency in seconds that this part of the requests does not exceed; 0 if there are no
    /// requests.
    pub fn seconds_at(&self, part: f64) -> f64 {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        let place = (latencies.len() as f64 * part).ceil() as usize;
        latencies.get(place.saturating_sub(1)).copied().unwrap_or_default().as_secs_f64()
    }

    /// The bytes that were written in a second, on average.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.measured.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_latency_that_was_measured() {
        let mut tally = Tally::of(Duration::from_secs(1));
        for millis in (1..=1000).rev() {
            tally.count(Duration::from_millis(millis), true);
        }
        assert_eq!([0.5, 0.999, 1.0].map(|part| tally.seconds_at(part)), [0.5, 0.999, 1.0]);
        assert_eq!(tally.within(0.9), 900);
        assert_eq!(Tally::default().seconds_at(0.999), 0.0);
    }

    #[test]
    fn a_failed_request_counts_as_later_than_every_promise() {
        let mut tally = Tally::of(Duration::from_secs(1));
        tally.count(Duration::from_millis(1), false);
        assert_eq!((tally.requests(), tally.failed(), tally.within(20.0)), (1, 1, 0));
    }

    #[test]
    fn the_rate_of_several_rounds_is_their_mean() {
        let mut sum = Tally::default();
        for bytes in [10, 30] {
            let mut round = Tally::of(Duration::from_secs(1));
            round.add_bytes(bytes);
            sum.add(round);
        }
        assert_eq!(sum.rate(), 20.0);
    }
}
