//! Checks by network calculus whether token buckets keep all latency promises.
//!
//! For a deterministic promise, the check assumes the worst: every other tenant uses up its buckets
//! at once. For a stochastic promise, it assumes that the tenants with stochastic promises send
//! independently of each other. All other tenants may still send at the worst time.

use super::candidate::priorities_of;
use super::{Candidate, Queue};
use crate::calculus::{
    Flow, SharedQueue, late_probability, legs_latency, meets, queue_delays, stages_latency,
};
use crate::limits::MAX_SLO_SECONDS;
use crate::{RateBurst, Service};

/// The number of steps in the binary search for a stochastic latency bound. The result is exact to
/// a thousandth.
const SEARCH_STEPS: usize = 16;
/// The lowest latency that is tried, as a part of the SLO.
const LEAST_PART: f64 = 1.0 / 1024.0;

/// Tenants with their buckets, and the queues that they share. No tenant outside this list may use
/// these queues.
pub(super) struct Check<'a> {
    queues: &'a [Queue],
    tenants: &'a [&'a Candidate],
    buckets: &'a [Vec<RateBurst>],
    priorities: Vec<usize>,
    /// The tenants at each queue, each with the index of its flow.
    at_queue: Vec<Vec<(usize, usize)>>,
}

impl<'a> Check<'a> {
    pub(super) fn new(
        queues: &'a [Queue],
        tenants: &'a [&'a Candidate],
        buckets: &'a [Vec<RateBurst>],
    ) -> Self {
        let mut at_queue: Vec<Vec<(usize, usize)>> = vec![vec![]; queues.len()];
        for (at, tenant) in tenants.iter().enumerate() {
            for (flow, traffic) in tenant.flows.iter().enumerate() {
                at_queue[traffic.queue].push((at, flow));
            }
        }
        Self { queues, tenants, buckets, priorities: priorities_of(tenants), at_queue }
    }

    /// Whether the calculus confirms the promise of every tenant.
    pub(super) fn are_kept(&self) -> bool {
        let bounds = self.bounds();
        let mut tenants = self.tenants.iter().zip(bounds).enumerate();
        tenants.all(|(at, (tenant, bound))| self.is_kept(at, tenant, bound))
    }

    fn is_kept(&self, at: usize, tenant: &Candidate, bound: Option<f64>) -> bool {
        let is_likely = |violation: f64| self.probability(at, tenant.slo_seconds) <= violation;
        meets(bound, tenant.slo_seconds) || tenant.violation.is_some_and(is_likely)
    }

    /// The latency bound of each tenant; `None` if there is no bound. No request of a tenant with a
    /// deterministic promise exceeds the bound. With a stochastic promise, at most the promised
    /// fraction of requests does.
    pub(super) fn latencies(&self) -> Vec<Option<f64>> {
        let bounds = self.bounds().into_iter().zip(self.tenants).enumerate();
        let latency =
            |(at, (bound, tenant)): (usize, (Option<f64>, &&Candidate))| match tenant.violation {
                None => bound,
                Some(violation) => self.latency_with(at, violation, bound),
            };
        bounds.map(latency).collect()
    }

    /// For each tenant, an upper bound on the probability that a request exceeds the SLO.
    pub(super) fn probabilities(&self) -> Vec<f64> {
        let bounds = self.bounds().into_iter().zip(self.tenants).enumerate();
        let probability = |(at, (bound, tenant)): (usize, (Option<f64>, &&Candidate))| match (
            meets(bound, tenant.slo_seconds),
            tenant.violation,
        ) {
            (true, _) => 0.0,
            (false, None) => 1.0,
            (false, Some(_)) => self.probability(at, tenant.slo_seconds),
        };
        bounds.map(probability).collect()
    }

    /// The longest delay of each flow of each tenant; `None` if there is no bound.
    fn delays(&self) -> Vec<Vec<Option<f64>>> {
        let mut delays: Vec<Vec<Option<f64>>> =
            self.tenants.iter().map(|tenant| vec![None; tenant.flows.len()]).collect();
        for (queue, present) in self.queues.iter().zip(&self.at_queue) {
            let flow = |(at, flow): &(usize, usize)| Flow {
                bucket: self.buckets[*at][*flow],
                priority: self.priorities[*at],
            };
            let flows: Vec<_> = present.iter().map(flow).collect();
            let service = Service { latency_seconds: queue.blocking_seconds, ..Service::DEVICE };
            for ((at, flow), delay) in present.iter().zip(queue_delays(service, &flows)) {
                delays[*at][*flow] =
                    delay.zip(self.held_back(*at, *flow)).map(|(one, two)| one + two);
            }
        }
        delays
    }

    /// The latency of each tenant that no request exceeds.
    fn bounds(&self) -> Vec<Option<f64>> {
        let delays = self.delays();
        let latency = |(at, tenant): (usize, &&Candidate)| {
            let flow_latency = |flow: usize| delays[at][flow];
            let leg = |leg: &Vec<usize>| stages_latency(leg.iter().map(|flow| flow_latency(*flow)));
            legs_latency(tenant.legs.iter().map(leg))
        };
        self.tenants.iter().enumerate().map(latency).collect()
    }

    /// The longest time for which the bucket of a flow holds back traffic within the flow's curve.
    fn held_back(&self, at: usize, flow: usize) -> Option<f64> {
        self.tenants[at].flows[flow].curve.shaper_delay(self.buckets[at][flow])
    }

    /// The queue that delays each tenant longest, if its requests pass several queues one after the
    /// other.
    pub(super) fn slowest_queues(&self) -> Vec<Option<usize>> {
        let slowest = |(tenant, delays): (&&Candidate, Vec<Option<f64>>)| {
            let passes_several = tenant.legs.iter().any(|leg| leg.len() > 1);
            let delay = |flow: &usize| delays[*flow].unwrap_or(f64::INFINITY);
            let flows = 0..tenant.flows.len();
            let slowest = flows.max_by(|one, other| delay(one).total_cmp(&delay(other)));
            slowest.filter(|_| passes_several).map(|flow| tenant.flows[flow].queue)
        };
        self.tenants.iter().zip(self.delays()).map(slowest).collect()
    }

    /// An upper bound on the probability that a request of the tenant takes longer than `latency`.
    /// The check assumes that the request passes every queue of the tenant.
    fn probability(&self, at: usize, latency: f64) -> f64 {
        let of_flow = |flow: usize| match self.held_back(at, flow) {
            Some(held_back) => self.probability_at(at, flow, latency - held_back),
            None => 1.0,
        };
        (0..self.tenants[at].flows.len()).map(of_flow).sum()
    }

    fn probability_at(&self, at: usize, flow: usize, latency: f64) -> f64 {
        let queue = self.tenants[at].flows[flow].queue;
        let (mut certain, mut higher, mut equals) = (RateBurst::default(), vec![], vec![]);
        for (other, flow) in self.at_queue[queue].iter().filter(|(other, _)| *other != at) {
            let bucket = self.buckets[*other][*flow];
            let is_independent = self.tenants[*other].violation.is_some();
            match self.priorities[*other].cmp(&self.priorities[at]) {
                std::cmp::Ordering::Greater => {}
                _ if !is_independent => certain = certain.plus(bucket),
                std::cmp::Ordering::Less => higher.push(bucket),
                std::cmp::Ordering::Equal => equals.push(bucket),
            }
        }
        let shared = SharedQueue {
            blocking_seconds: self.queues[queue].blocking_seconds,
            certain,
            higher: &higher,
            equals: &equals,
            own: self.buckets[at][flow],
        };
        late_probability(&shared, latency)
    }

    /// The lowest latency that a request exceeds with at most the probability `violation`. `bound`
    /// is the tenant's deterministic bound, from which the search starts.
    fn latency_with(&self, at: usize, violation: f64, bound: Option<f64>) -> Option<f64> {
        let holds = |latency: f64| self.probability(at, latency) <= violation;
        let mut high = match bound {
            Some(bound) => bound,
            None if holds(MAX_SLO_SECONDS) => MAX_SLO_SECONDS,
            None => return None,
        };
        let mut low = (self.tenants[at].slo_seconds * LEAST_PART).min(high);
        for _ in 0..SEARCH_STEPS {
            let middle = (low * high).sqrt();
            match holds(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }
}
