//! Computes the burst that a token bucket needs at each rate to let a trace pass without delay.

use super::WorkArrival;
use crate::calculus::RateBurst;

/// Simulates a leaky bucket for each rate, and returns the highest level that it reaches: the burst
/// that this rate needs.
///
/// At each request the bucket first leaks for the time since the last request. Then the work of the
/// request is added.
pub(super) fn bursts(arrivals: &[WorkArrival], rates: &[f64]) -> Vec<RateBurst> {
    let mut levels = vec![0.0_f64; rates.len()];
    let mut highest = vec![0.0_f64; rates.len()];
    let mut last = arrivals.first().map_or(0.0, |arrival| arrival.at_seconds);
    for arrival in arrivals {
        let passed = arrival.at_seconds - last;
        last = arrival.at_seconds;
        for ((rate, level), highest) in rates.iter().zip(&mut levels).zip(&mut highest) {
            *level = (*level - rate * passed).max(0.0) + arrival.work_seconds;
            *highest = highest.max(*level);
        }
    }
    let bucket = |(rate, burst): (&f64, f64)| RateBurst { rate: *rate, burst_seconds: burst };
    rates.iter().zip(highest).map(bucket).collect()
}
