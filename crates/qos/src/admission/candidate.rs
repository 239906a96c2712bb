//! The tenants that ask admission for a latency promise, and the queues that their requests pass.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nacre_object::{Error, Result, TenantName};
use serde::{Deserialize, Serialize};

use crate::ArrivalCurve;
use crate::limits::{MAX_QUEUES_OF_TENANT, MAX_SLO_SECONDS};

/// A device, or one direction of a network link. It does one second of work a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The name that error messages use for the queue.
    pub name: String,
    /// How long a promised request may wait for requests of lower priority that the device is
    /// already serving. At most, this is the work of all requests that may be outstanding.
    #[serde(default)]
    pub blocking_seconds: f64,
}

impl Queue {
    /// Checks that the blocking time is a finite number from 0.
    pub(super) fn check(&self) -> Result<()> {
        match self.blocking_seconds.is_finite() && self.blocking_seconds >= 0.0 {
            true => Ok(()),
            false => {
                let blocking = self.blocking_seconds;
                Err(Error::invalid(format!(
                    "the blocking time is {blocking} s; it must be a finite number from 0"
                ))
                .on(&self.name))
            }
        }
    }
}

/// A tenant's traffic at one queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueFlow {
    /// The index of the queue in [`Admission::queues`](super::Admission::queues).
    pub queue: usize,
    /// The most work that the tenant brings to the queue in any time span.
    pub curve: ArrivalCurve,
}

/// Whether the token buckets of a tenant may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Each queue has the bucket that its own traffic needs.
    #[default]
    OwnBuckets,
    /// All queues have the same bucket, large enough for the busiest queue, as in the thesis.
    Uniform,
}

/// The rank of a tenant in the order of service. Lower ranks are served first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rank {
    pub(super) slo_seconds: f64,
    is_stochastic: bool,
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_slo = self.slo_seconds.total_cmp(&other.slo_seconds);
        by_slo.then(self.is_stochastic.cmp(&other.is_stochastic))
    }
}

/// The priority of each tenant: the first is 0, and equal ranks have equal priorities.
pub(super) fn priorities_of(tenants: &[&Candidate]) -> Vec<usize> {
    let mut priorities: BTreeMap<_, _> = tenants.iter().map(|tenant| (tenant.rank(), 0)).collect();
    priorities.values_mut().enumerate().for_each(|(place, priority)| *priority = place);
    tenants.iter().map(|tenant| priorities[&tenant.rank()]).collect()
}

/// A tenant that asks for a promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The tenant.
    pub tenant: TenantName,
    /// The promised latency. With a deterministic promise, no request exceeds it. With a stochastic
    /// promise, at most the fraction `violation` of the requests does.
    pub slo_seconds: f64,
    /// For a *stochastic* promise: the fraction of requests that may take longer than the SLO.
    /// `None` means a *deterministic* promise: no request may take longer. Tenants with stochastic
    /// promises must send their requests independently of each other.
    pub violation: Option<f64>,
    /// The traffic at each queue, in any order. Each queue occurs once.
    pub flows: Vec<QueueFlow>,
    /// The legs of a request: the paths that it takes in parallel, such as one for each copy of a
    /// write. Each leg lists the queues that it passes in order, as indices into `flows`.
    pub legs: Vec<Vec<usize>>,
    /// Whether all queues get the same token bucket.
    pub sharing: Sharing,
    /// The epoch of the object placement for which the curves were computed.
    pub placement_epoch: u64,
}

impl Candidate {
    /// A tenant whose requests each go to one device, or to several in parallel, and pass no link.
    /// `flows` is its traffic at each device.
    pub fn on_devices(tenant: TenantName, slo_seconds: f64, flows: Vec<QueueFlow>) -> Self {
        let legs = (0..flows.len()).map(|flow| vec![flow]).collect();
        let (violation, sharing, placement_epoch) = (None, Sharing::default(), 0);
        Self { tenant, slo_seconds, violation, flows, legs, sharing, placement_epoch }
    }

    /// The tenant's rank in the order of service. Of two tenants with equal SLOs, the one with a
    /// deterministic promise is served first, so that no stochastic promise delays it.
    pub(super) fn rank(&self) -> Rank {
        Rank { slo_seconds: self.slo_seconds, is_stochastic: self.violation.is_some() }
    }

    /// Checks that the candidate is valid for this many queues.
    pub(super) fn check(&self, queues: usize) -> Result<()> {
        let wrong = |message: String| Err(Error::invalid(message).on(&self.tenant));
        if !(self.slo_seconds > 0.0 && self.slo_seconds <= MAX_SLO_SECONDS) {
            return wrong(format!(
                "the SLO is {} s; it must be above 0 and at most {MAX_SLO_SECONDS} s",
                self.slo_seconds
            ));
        }
        if let Some(violation) = self.violation {
            if !(violation > 0.0 && violation < 1.0) {
                return wrong(format!(
                    "the violation is {violation}; it must be above 0 and below 1"
                ));
            }
            if self.legs.iter().any(|leg| leg.len() != 1) {
                return wrong(
                    "each leg of a stochastic promise must pass one queue only".to_owned(),
                );
            }
        }
        if self.flows.is_empty() || self.flows.len() > MAX_QUEUES_OF_TENANT {
            return wrong(format!(
                "the tenant has traffic at {} queues; it must be from 1 to {MAX_QUEUES_OF_TENANT}",
                self.flows.len()
            ));
        }
        let mut own: Vec<_> = self.flows.iter().map(|flow| flow.queue).collect();
        own.sort_unstable();
        if own.windows(2).any(|pair| pair[0] == pair[1]) || own.last() >= Some(&queues) {
            return wrong(
                "a flow names a queue that does not exist, or two flows name the same queue"
                    .to_owned(),
            );
        }
        let mut is_passed = vec![false; self.flows.len()];
        for flow in self.legs.iter().flatten() {
            match is_passed.get_mut(*flow) {
                Some(is_passed) => *is_passed = true,
                None => {
                    return wrong(format!("a leg names the flow {flow}, which does not exist"));
                }
            }
        }
        match is_passed.contains(&false) {
            true => wrong("the tenant has a flow that no leg passes".to_owned()),
            false => Ok(()),
        }
    }
}
