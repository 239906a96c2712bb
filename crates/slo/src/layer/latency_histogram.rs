//! `LatencyHistogram`: counts of latencies since the process started, for Prometheus.
//!
//! Each bucket bound is 1.2 times the one before. So a percentile read from the middle of a bucket
//! is off by less than 10%.

use std::time::Duration;

use nacre_telemetry::HistogramSnapshot;

/// The bound of the first bucket.
const FIRST_SECONDS: f64 = 50e-6;
/// The ratio of one bucket bound to the bound before it.
const RATIO: f64 = 1.2;
/// How many buckets have a bound. The last bound is above 30 s, when clients give up.
const BOUNDED: usize = 74;

/// Counts of latencies.
#[derive(Debug)]
pub(super) struct LatencyHistogram {
    counts: [u64; BOUNDED + 1],
    sum_seconds: f64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: [0; BOUNDED + 1], sum_seconds: 0.0 }
    }
}

impl LatencyHistogram {
    pub fn record(&mut self, latency: Duration) {
        let seconds = latency.as_secs_f64();
        let bound = (seconds / FIRST_SECONDS).ln() / RATIO.ln();
        // A latency of 0 has no logarithm; the conversion to an integer makes it 0.
        let at = (bound.ceil() as usize).min(BOUNDED);
        self.counts[at] += 1;
        self.sum_seconds += seconds;
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        let bound = |at: usize| match at {
            BOUNDED => f64::MAX,
            at => FIRST_SECONDS * RATIO.powi(at as i32),
        };
        let buckets = self.counts.iter().enumerate().map(|(at, count)| (bound(at), *count));
        HistogramSnapshot { buckets: buckets.collect(), sum: self.sum_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_in_the_first_bucket_whose_bound_is_not_below_it() {
        let mut histogram = LatencyHistogram::default();
        let nanos = [0, 50_000, 50_001, 1_000_000, 40_000_000_000, 3_600_000_000_000];
        nanos.map(Duration::from_nanos).into_iter().for_each(|latency| histogram.record(latency));
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.buckets[0].1, snapshot.buckets[1].1), (2, 1));
        let at = snapshot.buckets.iter().position(|(bound, _)| *bound >= 1e-3).unwrap();
        assert_eq!(snapshot.buckets[at].1, 1);
        assert_eq!(snapshot.buckets[BOUNDED], (f64::MAX, 2));
        assert!(snapshot.buckets[BOUNDED - 1].0 > 30.0);
    }
}
