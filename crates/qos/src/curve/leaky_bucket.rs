//! The burst that each rate needs.

use super::WorkArrival;
use crate::calculus::RateBurst;

/// For each rate, the highest level that a leaky bucket of this rate reaches.
///
/// At each request the bucket first leaks for the time since the last request, and then takes the
/// work of the request.
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
