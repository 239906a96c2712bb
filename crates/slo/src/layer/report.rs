//! What a node says of its targets.

use nacre_object::Result;
use nacre_qos::ArrivalCurve;
use serde::{Deserialize, Serialize};

use crate::{DirectTraffic, Latencies};

/// A target, as one node sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetReport {
    /// The target.
    pub target: String,
    /// Whether its requests are ordered.
    pub is_enforced: bool,
    /// Requests that wait.
    pub queued: usize,
    /// Requests at the engine.
    pub outstanding: usize,
    /// The seconds for which the target has been busy since the node started.
    pub busy_seconds: f64,
    /// The ratio of the time that recent requests took to the time in the profile. Above 1 the
    /// target has become slower than promises assume. `None` without a profile, or if there was too
    /// little work.
    pub drift: Option<f64>,
    /// The requests of clients that pass no gateway. `None` if the target is not an OSD, or if they
    /// are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectTraffic>,
    /// How many decisions a program has made in place of the native order.
    #[serde(default)]
    pub decided_by_program: u64,
    /// What each tenant saw.
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
    /// Of these, those within the limits of the tenant.
    pub within: u64,
    /// Requests that found the queue full.
    pub refused: u64,
    /// Requests that took longer than promised.
    pub misses: u64,
    /// Requests that wait.
    pub queued: usize,
    /// The arrival curve of the tenant since it is watched, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<ArrivalCurve>,
    /// The tokens that are left in each token bucket, in seconds of work. Below 0 the tenant has
    /// used more than it was promised.
    pub tokens_seconds: Vec<f64>,
}

impl TenantReport {
    /// Combines the reports of a tenant at two targets. The result has the fewest tokens of both,
    /// and no curve.
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
