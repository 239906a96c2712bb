//! What a tenant was promised.

use nacre_object::{TargetName, TenantName};
use nacre_qos::{ArrivalCurve, RateBurst};
use serde::{Deserialize, Serialize};

/// What a tenant was promised, and for which traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The promised latency in seconds. No request exceeds it, or only the part in `violation`.
    pub slo_seconds: f64,
    /// The part of its requests that may take longer, for a stochastic promise. `None` for a
    /// deterministic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<f64>,
    /// The percentile of the measured latencies that is compared with the promised latency. The
    /// bound itself holds for all requests.
    pub percentile: f64,
    /// The latency bound, in seconds, computed at the last admission of any tenant. Like
    /// `slo_seconds`, no request exceeds it, or only the part in `violation`.
    pub bound_seconds: f64,
    /// Lower numbers are served first.
    pub priority: u32,
    /// The epoch of the placement for which the curves were made
    /// ([`placement_epoch`](crate::placement_epoch)).
    pub placement_epoch: u64,
    /// The epoch of the profiles with which the curves were made
    /// ([`SloState::profile_epoch`](crate::SloState::profile_epoch)). `None` if an earlier release
    /// stored the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_epoch: Option<u64>,
    /// Its traffic by target.
    pub flows: Vec<PromisedFlow>,
    /// The traffic in words, as it was asked for.
    pub traffic: String,
}

/// A tenant's traffic at one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromisedFlow {
    /// The target.
    pub target: String,
    /// The most work that comes to it.
    pub curve: ArrivalCurve,
    /// The token bucket: traffic beyond it has no promise.
    pub bucket: RateBurst,
}

impl Promise {
    /// The token bucket at a target, if the tenant has traffic there.
    pub fn bucket_at(&self, target: &TargetName) -> Option<RateBurst> {
        let flow = self.flows.iter().find(|flow| flow.target == target.as_str());
        flow.map(|flow| flow.bucket)
    }

    /// How errors and listings name the promise of a tenant.
    pub fn describe(&self, tenant: &TenantName) -> String {
        format!(
            "{tenant}: p{} within {:.1} ms for {} ({})",
            self.percentile,
            self.slo_seconds * 1e3,
            self.traffic,
            self.bound_name()
        )
    }

    /// Which bound the tenant was admitted by, in words.
    pub fn bound_name(&self) -> String {
        match self.violation {
            None => "deterministic".to_owned(),
            Some(violation) => format!("stochastic, violation {violation}"),
        }
    }
}
