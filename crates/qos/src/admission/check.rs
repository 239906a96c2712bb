//! Whether buckets keep the promises, by network calculus.

use super::{Candidate, Queue};
use crate::calculus::{Flow, legs_latency, priorities, queue_delays, stages_latency};
use crate::{RateBurst, Service};

/// The bound on the latency of each tenant with these buckets; `None` if there is no bound.
///
/// The tenants must be all that use the queues of any of them.
pub(super) fn latencies(
    queues: &[Queue],
    tenants: &[&Candidate],
    buckets: &[Vec<RateBurst>],
) -> Vec<Option<f64>> {
    let slos: Vec<_> = tenants.iter().map(|tenant| tenant.slo_seconds).collect();
    let priorities = priorities(&slos);
    let mut at_queue: Vec<Vec<(usize, usize)>> = vec![vec![]; queues.len()];
    for (at, tenant) in tenants.iter().enumerate() {
        for (flow, traffic) in tenant.flows.iter().enumerate() {
            at_queue[traffic.queue].push((at, flow));
        }
    }
    let mut delays: Vec<Vec<Option<f64>>> =
        tenants.iter().map(|tenant| vec![None; tenant.flows.len()]).collect();
    for (queue, present) in queues.iter().zip(&at_queue) {
        let flows: Vec<_> = present
            .iter()
            .map(|(at, flow)| Flow { bucket: buckets[*at][*flow], priority: priorities[*at] })
            .collect();
        let service = Service { latency_seconds: queue.blocking_seconds, ..Service::DEVICE };
        for ((at, flow), delay) in present.iter().zip(queue_delays(service, &flows)) {
            delays[*at][*flow] = delay;
        }
    }
    let latency = |(at, tenant): (usize, &&Candidate)| {
        let flow_latency = |flow: usize| {
            let held_back = tenant.flows[flow].curve.shaper_delay(buckets[at][flow])?;
            Some(held_back + delays[at][flow]?)
        };
        let leg = |leg: &Vec<usize>| stages_latency(leg.iter().map(|flow| flow_latency(*flow)));
        legs_latency(tenant.legs.iter().map(leg))
    };
    tenants.iter().enumerate().map(latency).collect()
}
