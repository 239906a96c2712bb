//! The reports of a node about its targets and their tenants.

use nacre_object::Result;
use nacre_qos::ArrivalCurve;
use serde::{Deserialize, Serialize};

use crate::{DirectTraffic, Latencies};

/// A target, as one node sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// The target.
    pub target: String,
    /// Whether the node orders requests, or only measures them.
    pub is_enforced: bool,
    /// How many requests wait.
    pub queued: usize,
    /// How many requests are at the engine.
    pub outstanding: usize,
    /// The seconds for which the target has been busy since the node started.
    pub busy_seconds: f64,
    /// The measured work of recent requests, divided by the work that the profile predicts for
    /// them. Above 1, the target is slower than promises assume. `None` without a profile or with
    /// too little work.
    pub drift: Option<f64>,
    /// The traffic of clients that pass no gateway. `None` if it is unknown, or if the target is no
    /// OSD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectTraffic>,
    /// How many decisions an order program has made in place of the built-in order.
    #[serde(default)]
    pub decided_by_program: u64,
    /// Latencies and counts of each tenant.
    pub tenants: Vec<TenantReport>,
}

/// A tenant at a target, as one node sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantReport {
    /// The tenant.
    pub tenant: String,
    /// Latencies of the last minute.
    pub minute: Latencies,
    /// Latencies of the last hour.
    pub hour: Latencies,
    /// Requests that were answered since the node started.
    pub requests: u64,
    /// How many of them were within the limits of the tenant.
    pub within: u64,
    /// Requests that were refused because the queue was full.
    pub refused: u64,
    /// Requests that took longer than promised.
    pub misses: u64,
    /// Requests that wait.
    pub queued: usize,
    /// The arrival curve of the tenant since the watch began, if the tenant is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<ArrivalCurve>,
    /// The tokens in each token bucket, in seconds of work. Below 0, the tenant has used more than
    /// it was promised.
    pub tokens_seconds: Vec<f64>,
}

impl TenantReport {
    /// Combines the reports of one tenant at two targets. The result has the fewest tokens of the
    /// two, and no curve.
    ///
    /// # Errors
    /// `Corrupt` if the other report is malformed.
    pub fn and(self, other: &Self) -> Result<Self> {
        let tokens = self.tokens_seconds.iter().chain(&other.tokens_seconds).copied();
        Ok(Self {
            tokens_seconds: tokens.reduce(f64::min).into_iter().collect(),
            tenant: other.tenant.clone(),
            minute: self.minute.and(&other.minute)?,
            hour: self.hour.and(&other.hour)?,
            requests: self.requests + other.requests,
            within: self.within + other.within,
            refused: self.refused + other.refused,
            misses: self.misses + other.misses,
            queued: self.queued + other.queued,
            curve: None,
        })
    }
}
