//! The latency of a tenant, computed from the delays at the queues that its requests pass.

/// The latency of a request that passes these stages one after the other: the sum.
pub fn stages_latency(delays: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    delays.into_iter().sum()
}

/// The latency of a request that takes several paths in parallel, such as one for each copy of a
/// write: the latency of the slowest path.
pub fn legs_latency(latencies: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    latencies.into_iter().try_fold(0.0, |longest, latency| Some(f64::max(longest, latency?)))
}

/// Whether a latency is at most the SLO. False if there is no bound, and for NaN.
pub fn meets(latency: Option<f64>, slo_seconds: f64) -> bool {
    latency.is_some_and(|latency| latency <= slo_seconds)
}
