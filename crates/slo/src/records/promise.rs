//! The promise to a tenant, as the map `slo` stores it.

use nacre_object::{NodeName, TargetName, TenantName};
use nacre_qos::{ArrivalCurve, Link, RateBurst};
use serde::{Deserialize, Serialize};

use crate::links::{received_by, sent_by};

/// The latency that a tenant was promised, and the traffic that the promise covers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The promised latency in seconds. With a deterministic promise, no request exceeds it. With a
    /// stochastic promise, at most the fraction `violation` of the requests does.
    pub slo_seconds: f64,
    /// For a stochastic promise: the fraction of requests that may take longer. `None` for a
    /// deterministic promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<f64>,
    /// The percentile of the measured latencies that status reports compare with the promised
    /// latency. It is only for reports: the promise covers all requests.
    pub percentile: f64,
    /// The latency bound in seconds, computed at the last admission of any tenant. With a
    /// deterministic promise, no request exceeds it. With a stochastic promise, at most the
    /// fraction `violation` of the requests does.
    pub bound_seconds: f64,
    /// Lower numbers are served first.
    pub priority: u32,
    /// The epoch of the set of targets for which the curves were computed
    /// ([`placement_epoch`](crate::placement_epoch)).
    pub placement_epoch: u64,
    /// The epoch of the profiles with which the curves were computed
    /// ([`SloState::profile_epoch`](crate::SloState::profile_epoch)). `None` if an earlier release
    /// stored the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_epoch: Option<u64>,
    /// The speed of the link of its client in bytes a second, if it was stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_link_bytes_per_second: Option<f64>,
    /// The promised traffic at each target, and in each direction of a link.
    pub flows: Vec<PromisedFlow>,
    /// The promised traffic in words.
    pub traffic: String,
}

/// A tenant's traffic at one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromisedFlow {
    /// The target, or the direction of a link in words.
    pub target: String,
    /// The most work that the tenant brings to the target in any time span.
    pub curve: ArrivalCurve,
    /// The token bucket. Traffic beyond it has no promise.
    pub bucket: RateBurst,
}

impl PromisedFlow {
    /// Whether it is the traffic at a link. The name of a target has no space.
    pub(crate) fn is_at_link(&self) -> bool {
        self.target.contains(' ')
    }
}

impl Promise {
    /// The targets for which the tenant's traffic was admitted.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.flows.iter().filter(|flow| !flow.is_at_link()).map(|flow| flow.target.as_str())
    }

    /// The token bucket at a target, if the tenant has traffic there.
    pub fn bucket_at(&self, target: &TargetName) -> Option<RateBurst> {
        self.bucket_of(target.as_str())
    }

    /// The token bucket for what a node receives from the tenant, if the node has a link.
    pub fn bucket_received_by(&self, node: &NodeName) -> Option<RateBurst> {
        self.bucket_of(&received_by(node))
    }

    /// The token bucket for what a node sends to the tenant, if the node has a link.
    pub fn bucket_sent_by(&self, node: &NodeName) -> Option<RateBurst> {
        self.bucket_of(&sent_by(node))
    }

    fn bucket_of(&self, queue: &str) -> Option<RateBurst> {
        let flow = self.flows.iter().find(|flow| flow.target == queue);
        flow.map(|flow| flow.bucket)
    }

    /// The link of its client, if it was stated.
    pub fn client_link(&self) -> Option<Link> {
        self.client_link_bytes_per_second.and_then(|speed| Link::new(speed).ok())
    }

    /// The promise in words, for errors and listings.
    pub fn describe(&self, tenant: &TenantName) -> String {
        format!(
            "{tenant}: p{} within {:.1} ms for {} ({})",
            self.percentile,
            self.slo_seconds * 1e3,
            self.traffic,
            self.bound_name()
        )
    }

    /// The kind of bound by which the tenant was admitted, in words.
    pub fn bound_name(&self) -> String {
        match self.violation {
            None => "deterministic".to_owned(),
            Some(violation) => format!("stochastic, violation {violation}"),
        }
    }
}
