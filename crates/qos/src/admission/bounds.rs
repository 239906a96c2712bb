//! Computes the latency bounds of token buckets that a person chose, for `nacre slo bound`.

use nacre_object::{Error, Result, TenantName};
use serde::{Deserialize, Serialize};

use super::candidate::priorities_of;
use super::check::Check;
use super::{Candidate, Queue, QueueFlow};
use crate::calculus::meets;
use crate::{ArrivalCurve, RateBurst};

/// Tenants with their buckets, and the queues that they share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundsQuestion {
    /// The queues.
    pub queues: Vec<Queue>,
    /// The tenants.
    pub tenants: Vec<TenantQuestion>,
}

/// A tenant with its buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantQuestion {
    /// The tenant's name.
    pub tenant: String,
    /// The promised latency (SLO). Tenants with a shorter SLO are served first.
    pub slo_seconds: f64,
    /// For a stochastic promise: the fraction of the tenant's requests that may take longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<f64>,
    /// The tenant's token bucket at each queue that its requests pass.
    pub flows: Vec<BucketAtQueue>,
    /// The legs of a request: the paths that it takes in parallel, such as one for each copy of a
    /// write. Each leg lists the queues that it passes in order, as indices into `flows`. If this
    /// list is empty, each flow is a leg of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<Vec<usize>>,
}

/// A token bucket at a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketAtQueue {
    /// The queue's name.
    pub queue: String,
    /// Seconds of work a second.
    pub rate: f64,
    /// Seconds of work that may come at once.
    pub burst_seconds: f64,
}

/// The latency bound of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantBound {
    /// The tenant's name.
    pub tenant: String,
    /// 0 is served first.
    pub priority: usize,
    /// The promised latency.
    pub slo_seconds: f64,
    /// For a stochastic promise: the fraction of the tenant's requests that may take longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violation: Option<f64>,
    /// The latency bound; `None` if there is no bound. With a deterministic promise, no request
    /// exceeds it. With a stochastic promise, at most the fraction `violation` of the requests
    /// does.
    pub latency_seconds: Option<f64>,
    /// Whether the promise is kept.
    pub is_kept: bool,
}

/// Computes the latency bound of each tenant.
///
/// # Errors
/// `Invalid` if a number is out of range, or if a name is unknown.
pub fn bounds(question: &BoundsQuestion) -> Result<Vec<TenantBound>> {
    for queue in &question.queues {
        queue.check()?;
    }
    let candidates = question.tenants.iter().map(|tenant| tenant.candidate(&question.queues));
    let candidates = candidates.collect::<Result<Vec<_>>>()?;
    let tenants: Vec<_> = candidates.iter().collect();
    let buckets = question.tenants.iter().map(TenantQuestion::buckets).collect::<Vec<_>>();
    let latencies = Check::new(&question.queues, &tenants, &buckets).latencies();
    let bound = |((tenant, latency_seconds), priority): ((&TenantQuestion, _), _)| TenantBound {
        tenant: tenant.tenant.clone(),
        priority,
        slo_seconds: tenant.slo_seconds,
        violation: tenant.violation,
        latency_seconds,
        is_kept: meets(latency_seconds, tenant.slo_seconds),
    };
    Ok(question.tenants.iter().zip(latencies).zip(priorities_of(&tenants)).map(bound).collect())
}

impl TenantQuestion {
    fn buckets(&self) -> Vec<RateBurst> {
        let bucket =
            |flow: &BucketAtQueue| RateBurst { rate: flow.rate, burst_seconds: flow.burst_seconds };
        self.flows.iter().map(bucket).collect()
    }

    fn candidate(&self, queues: &[Queue]) -> Result<Candidate> {
        let flow = |(flow, bucket): (&BucketAtQueue, RateBurst)| {
            let queue = queues.iter().position(|queue| queue.name == flow.queue);
            let queue = queue.ok_or_else(|| {
                Error::invalid(format!("there is no queue {:?}", flow.queue))
                    .on(&self.tenant)
                    .hint("name one of the queues of the question")
            })?;
            Ok(QueueFlow { queue, curve: ArrivalCurve::lower_envelope(&[bucket])? })
        };
        let flows = self.flows.iter().zip(self.buckets()).map(flow).collect::<Result<_>>()?;
        let tenant = TenantName::new(&self.tenant)?;
        let mut candidate = Candidate::on_devices(tenant, self.slo_seconds, flows);
        candidate.violation = self.violation;
        if !self.legs.is_empty() {
            candidate.legs.clone_from(&self.legs);
        }
        candidate.check(queues.len())?;
        Ok(candidate)
    }
}
