//! `LatencyWindows`: the latencies of the last minute and of the last hour.
//!
//! Each window is a ring of slices, which are histograms with an error of at most 10%. The oldest
//! slice is emptied and used again. So the minute covers the last 50 to 60 seconds, and the hour
//! the last 59 to 60 minutes.

use std::time::Duration;

use hdrhistogram::Histogram;
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

/// Higher latencies count as this one. No request waits longer.
const MAX_MICROS: u64 = 120_000_000;
/// One digit keeps the error below 10%.
const DIGITS: u8 = 1;
const MINUTE_SLICES: usize = 6;
const MINUTE_SLICE: Duration = Duration::from_secs(10);
const HOUR_SLICES: usize = 60;
const HOUR_SLICE: Duration = Duration::from_secs(60);

/// The latencies of one tenant at one target.
#[derive(Debug)]
pub struct LatencyWindows {
    minute: Ring,
    hour: Ring,
}

/// The latencies of a window: pairs of a number of microseconds and how many requests took that
/// long. Windows of several targets can be added.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies(Vec<(u64, u64)>);

impl LatencyWindows {
    /// Windows without latencies.
    pub fn new() -> Self {
        Self {
            minute: Ring::new(MINUTE_SLICES, MINUTE_SLICE),
            hour: Ring::new(HOUR_SLICES, HOUR_SLICE),
        }
    }

    /// Counts a latency.
    pub fn record(&mut self, latency: Duration, now: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).clamp(1, MAX_MICROS);
        self.minute.record(micros, now);
        self.hour.record(micros, now);
    }

    /// The latencies of the last minute.
    pub fn minute(&mut self, now: Duration) -> Latencies {
        self.minute.sum(now)
    }

    /// The latencies of the last hour.
    pub fn hour(&mut self, now: Duration) -> Latencies {
        self.hour.sum(now)
    }
}

impl Default for LatencyWindows {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Ring {
    /// `None` for a slice without latencies.
    slices: Vec<Option<Histogram<u32>>>,
    length: Duration,
    /// The number of the newest slice, counted from the start of the clock.
    newest: u64,
}

impl Ring {
    fn new(slices: usize, length: Duration) -> Self {
        Self { slices: (0..slices).map(|_| None).collect(), length, newest: 0 }
    }

    fn turn(&mut self, now: Duration) {
        let number = (now.as_nanos() / self.length.as_nanos()) as u64;
        let count = self.slices.len() as u64;
        let passed = number.saturating_sub(self.newest);
        for step in 1..=passed.min(count) {
            self.slices[((self.newest + step) % count) as usize] = None;
        }
        if passed > count {
            self.slices.iter_mut().for_each(|slice| *slice = None);
        }
        self.newest = self.newest.max(number);
    }

    fn record(&mut self, micros: u64, now: Duration) {
        self.turn(now);
        let at = (self.newest % self.slices.len() as u64) as usize;
        self.slices[at].get_or_insert_with(empty).saturating_record(micros);
    }

    fn sum(&mut self, now: Duration) -> Latencies {
        self.turn(now);
        let mut all = empty();
        for slice in self.slices.iter().flatten() {
            // All have the same bounds.
            let _ = all.add(slice);
        }
        Latencies::of(&all)
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new_with_bounds(1, MAX_MICROS, DIGITS).expect("the bounds are constants")
}

impl Latencies {
    fn of(histogram: &Histogram<u32>) -> Self {
        let counts = histogram.iter_recorded();
        Self(
            counts
                .map(|value| (value.value_iterated_to(), value.count_since_last_iteration()))
                .collect(),
        )
    }

    /// How many latencies there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The latency, in seconds, that this percentage of the requests does not exceed; `None`
    /// without requests.
    pub fn percentile_seconds(&self, percentile: f64) -> Option<f64> {
        let wanted = (self.count() as f64 * percentile / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(micros, _)| *micros as f64 / 1e6)
    }

    /// Adds the latencies of another window.
    ///
    /// # Errors
    /// `Corrupt` if the other latencies are not in ascending order.
    pub fn and(mut self, other: &Self) -> Result<Self> {
        if !other.0.is_sorted_by(|one, next| one.0 < next.0) {
            return Err(Error::corrupt("the reported latencies are not in ascending order")
                .hint("run this release of nacre on all nodes"));
        }
        self.0.extend(&other.0);
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 += next.1;
            }
            is_same
        });
        Ok(self)
    }

    /// The upper bound of each bucket in microseconds and the bucket's count, in ascending order.
    pub fn buckets(&self) -> &[(u64, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn percentiles_are_off_by_a_tenth_at_most() {
        let mut windows = LatencyWindows::new();
        for millis in 1..=1000 {
            windows.record(Duration::from_millis(millis), SECOND);
        }
        let minute = windows.minute(SECOND);
        assert_eq!(minute.count(), 1000);
        for (percentile, seconds) in [(50.0, 0.5), (99.0, 0.99), (99.9, 0.999)] {
            let found = minute.percentile_seconds(percentile).unwrap();
            assert!((found / seconds - 1.0).abs() < 0.1, "p{percentile}: {found}");
        }
    }

    #[test]
    fn a_latency_leaves_the_minute_before_it_leaves_the_hour() {
        let mut windows = LatencyWindows::new();
        windows.record(SECOND, SECOND);
        assert_eq!(windows.minute(59 * SECOND).count(), 1);
        assert_eq!(windows.minute(61 * SECOND).count(), 0);
        assert_eq!(windows.hour(61 * SECOND).count(), 1);
        assert_eq!(windows.hour(3599 * SECOND).count(), 1);
        assert_eq!(windows.hour(3661 * SECOND).count(), 0);
    }

    #[test]
    fn a_long_silence_empties_the_windows() {
        let mut windows = LatencyWindows::new();
        windows.record(SECOND, SECOND);
        assert_eq!(windows.hour(90_000 * SECOND).count(), 0);
        windows.record(SECOND, 90_001 * SECOND);
        assert_eq!(windows.minute(90_001 * SECOND).count(), 1);
    }

    #[test]
    fn latencies_of_several_targets_add_up() {
        let mut one = LatencyWindows::new();
        let mut other = LatencyWindows::new();
        one.record(Duration::from_millis(1), SECOND);
        other.record(Duration::from_millis(1), SECOND);
        other.record(Duration::from_millis(9), SECOND);
        let both = one.minute(SECOND).and(&other.minute(SECOND)).unwrap();
        assert_eq!((both.count(), both.buckets().len()), (3, 2));
    }

    #[test]
    fn an_empty_window_has_no_percentile() {
        assert_eq!(Latencies::default().percentile_seconds(99.0), None);
    }
}
