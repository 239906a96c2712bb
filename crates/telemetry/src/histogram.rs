//! A histogram of values such as latencies. Recording a value costs two atomic additions.
//!
//! Each bucket's bound is twice the previous bound. These bounds are coarse but the same
//! everywhere, so histograms of all nodes and releases can be added. Recording computes the bucket
//! from the value; it does not search.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of buckets with a bound; one more bucket takes greater values. If the lowest bound is a
/// microsecond, the highest is 16.8 s: more than every deadline except those of long polls.
const BOUNDED: usize = 25;
const NANOS_PER_SECOND: f64 = 1e9;

/// Durations in nanoseconds; the first bound is a microsecond.
pub type Durations = Histogram<1000>;
/// Counts or bytes; the first bound is one.
pub type Sizes = Histogram<1>;

/// Counts of values between bounds `FIRST`, `2 * FIRST`, `4 * FIRST` …
#[derive(Debug)]
pub struct Histogram<const FIRST: u64> {
    buckets: [AtomicU64; BOUNDED + 1],
    sum: AtomicU64,
}

impl<const FIRST: u64> Default for Histogram<FIRST> {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BOUNDED + 1], sum: AtomicU64::new(0) }
    }
}

impl<const FIRST: u64> Histogram<FIRST> {
    /// Counts a value.
    pub fn record(&self, value: u64) {
        self.buckets[Self::bucket_of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn bucket_of(value: u64) -> usize {
        let beyond = value.saturating_sub(1) / FIRST;
        let bucket = (u64::BITS - beyond.leading_zeros()) as usize;
        bucket.min(BOUNDED)
    }

    fn read(&self, unit: f64) -> HistogramSnapshot {
        let bound = |bucket: usize| match bucket {
            BOUNDED => f64::MAX,
            bucket => (FIRST << bucket) as f64 / unit,
        };
        let count = |bucket: &AtomicU64| bucket.load(Ordering::Relaxed);
        let counts = self.buckets.iter().map(count);
        HistogramSnapshot {
            buckets: counts.enumerate().map(|(bucket, count)| (bound(bucket), count)).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / unit,
        }
    }
}

impl Durations {
    /// Counts a duration.
    pub fn record_duration(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The counts so far, with bounds in seconds.
    pub fn snapshot(&self) -> HistogramSnapshot {
        self.read(NANOS_PER_SECOND)
    }
}

impl Sizes {
    /// The counts so far.
    pub fn snapshot(&self) -> HistogramSnapshot {
        self.read(1.0)
    }
}

/// A histogram as it was when it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// Each bucket's inclusive upper bound and its count, which excludes the values in lower
    /// buckets. The last bound is `f64::MAX`.
    pub buckets: Vec<(f64, u64)>,
    /// The sum of all values.
    pub sum: f64,
}

impl HistogramSnapshot {
    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_lowest_bucket_whose_bound_it_does_not_exceed() {
        let sizes = Sizes::default();
        [0, 1, 2, 3, 4, 5].into_iter().for_each(|value| sizes.record(value));
        let snapshot = sizes.snapshot();
        assert_eq!(snapshot.buckets[..4], [(1.0, 2), (2.0, 1), (4.0, 2), (8.0, 1)]);
        assert_eq!((snapshot.count(), snapshot.sum), (6, 15.0));
    }

    #[test]
    fn durations_are_reported_in_seconds_and_the_longest_have_a_bucket() {
        let durations = Durations::default();
        let bound = 1 << (BOUNDED - 1);
        for micros in [1, bound, bound + 1, 1 << 40] {
            durations.record_duration(Duration::from_micros(micros));
        }
        let snapshot = durations.snapshot();
        assert_eq!(snapshot.buckets[0], (1e-6, 1));
        assert_eq!(snapshot.buckets[BOUNDED - 1], (bound as f64 * 1e-6, 1));
        assert_eq!(snapshot.buckets[BOUNDED], (f64::MAX, 2));
    }
}
