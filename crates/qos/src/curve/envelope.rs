//! `Envelope`: the arrival curve of live traffic, in bounded memory.

use std::time::Duration;

use nacre_object::{Error, Result};

use super::ArrivalCurve;
use crate::calculus::RateBurst;
use crate::limits::{ENVELOPE_RATES, MAX_CURVE_SEGMENTS};

/// The lowest rate of a leaky bucket. Traffic below this rate needs no promise.
const LOWEST_RATE: f64 = 1e-4;

/// Measures live traffic with leaky buckets of fixed rates, and computes its arrival curve. It
/// needs little memory, because it keeps no requests. Its curve lies somewhat higher than the curve
/// of a trace, because the rates are fixed beforehand.
#[derive(Debug, Clone)]
pub struct Envelope {
    buckets: Vec<Bucket>,
    began: Duration,
    leaked_at: Duration,
    work_seconds: f64,
}

#[derive(Debug, Clone)]
struct Bucket {
    rate: f64,
    level_seconds: f64,
    highest_seconds: f64,
}

impl Envelope {
    /// Starts to measure now.
    pub fn new(now: Duration) -> Self {
        let steps = (ENVELOPE_RATES - 1) as f64;
        let bucket = |step| Bucket {
            rate: LOWEST_RATE.powf(step as f64 / steps),
            level_seconds: 0.0,
            highest_seconds: 0.0,
        };
        let buckets = (0..ENVELOPE_RATES).map(bucket).collect();
        Self { buckets, began: now, leaked_at: now, work_seconds: 0.0 }
    }

    /// Records a request that arrives now.
    pub fn record(&mut self, work_seconds: f64, now: Duration) {
        let passed = now.saturating_sub(self.leaked_at).as_secs_f64();
        self.leaked_at = self.leaked_at.max(now);
        self.work_seconds += work_seconds;
        for bucket in &mut self.buckets {
            bucket.level_seconds =
                (bucket.level_seconds - bucket.rate * passed).max(0.0) + work_seconds;
            bucket.highest_seconds = bucket.highest_seconds.max(bucket.level_seconds);
        }
    }

    /// For how long the traffic has been measured.
    pub fn watched(&self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }

    /// Computes the arrival curve of the traffic since the measurement began.
    ///
    /// # Errors
    /// `NotFound` if no request came; `Exhausted` if more work came than the target can do.
    pub fn curve(&self, now: Duration) -> Result<ArrivalCurve> {
        if self.work_seconds <= 0.0 {
            return Err(Error::not_found(
                "the tenant has sent nothing since the measurement began",
            )
            .hint("measure while the tenant sends requests"));
        }
        // The longer the traffic was watched, the less a burst at the end raises the mean.
        let mean = self.work_seconds / self.watched(now).as_secs_f64().max(f64::MIN_POSITIVE);
        let lines: Vec<_> = self
            .buckets
            .iter()
            .filter(|bucket| bucket.rate >= mean)
            .map(|bucket| RateBurst { rate: bucket.rate, burst_seconds: bucket.highest_seconds })
            .collect();
        if lines.is_empty() {
            return Err(Error::exhausted(format!(
                "the tenant sends {:.0}% of the work that the target can do",
                mean * 100.0
            ))
            .hint("spread its objects over more targets, or lower its traffic"));
        }
        Ok(ArrivalCurve::lower_envelope(&lines)?.pruned(MAX_CURVE_SEGMENTS))
    }
}
