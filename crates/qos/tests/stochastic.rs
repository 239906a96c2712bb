//! Tests of the stochastic bound: it holds in simulations, and it admits more tenants than the
//! deterministic bound.

mod common;

use std::time::Duration;

use common::{device, name};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_qos::scheduler::{DeviceLimits, KindLimits, TenantSettings, Ties};
use nacre_qos::simulate::{
    Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step, simulate,
};
use nacre_qos::{
    Admission, ArrivalCurve, Candidate, IoKind, MarkovSource, QueueFlow, RateBurst,
    StochasticQueue, Verdict, WorkArrival, WorkTrace, latency_with_probability,
    violation_probability,
};

const CASES: SeedCases =
    SeedCases { file: "stochastic_seeds.txt", text: include_str!("stochastic_seeds.txt") };
const SLOT_SECONDS: f64 = 0.01;
const SLOTS: u32 = 20_000;
const START: f64 = 0.05;
const STOP: f64 = 0.3;
/// Work of a slot in which a source is on.
const WORK_SECONDS: f64 = 0.004;
const PROBABILITY: f64 = 0.01;

fn source() -> MarkovSource {
    MarkovSource::new(START, STOP, WORK_SECONDS).unwrap()
}

/// The slots in which a source is on.
fn slots(random: &mut Random) -> Vec<u32> {
    let mut happens =
        |probability: f64| (random.below(1 << 30) as f64) < probability * (1 << 30) as f64;
    let mut is_on = happens(source().on_share());
    (0..SLOTS)
        .filter(|_| {
            is_on = if is_on { !happens(STOP) } else { happens(START) };
            is_on
        })
        .collect()
}

/// A tenant whose requests are always within its limits.
fn tenant(priority: u32, slots: &[u32]) -> SimulatedTenant {
    let all = RateBurst { rate: 1.0, burst_seconds: 1e6 };
    let settings = TenantSettings {
        queue_requests: usize::MAX,
        queue_bytes: u64::MAX,
        ..TenantSettings::promised(priority, vec![all])
    };
    let step = Step { queue: 0, work: Duration::from_secs_f64(WORK_SECONDS) };
    let request = |slot: &u32| SimulatedRequest {
        at: Duration::from_secs_f64(f64::from(*slot) * SLOT_SECONDS),
        kind: IoKind::Read,
        bytes: 4096,
        legs: vec![vec![step]],
    };
    SimulatedTenant { settings: vec![(0, settings)], requests: slots.iter().map(request).collect() }
}

/// The latencies of tenants with these priorities, on one device.
fn latencies(random: &mut Random, priorities: &[u32]) -> Vec<Vec<Duration>> {
    let limits = KindLimits { requests: 1, bytes: 1 << 30 };
    let limits = DeviceLimits { reads: limits, writes: limits };
    let queue = SimulatedQueue { limits, ties: Ties::FirstCome, device: SimulatedDevice::Serial };
    let tenants = priorities.iter().map(|priority| tenant(*priority, &slots(random))).collect();
    simulate(&Scenario { queues: vec![queue], tenants }).unwrap()
}

/// The part of some latencies that is above a bound.
fn share_above(latencies: &[Duration], bound: f64) -> f64 {
    let above = latencies.iter().filter(|latency| latency.as_secs_f64() > bound).count();
    above as f64 / latencies.len() as f64
}

#[test]
fn no_more_requests_exceed_the_latency_than_the_stated_probability() {
    let own = source();
    let equals = [own; 9];
    let queue = StochasticQueue {
        slot_seconds: SLOT_SECONDS,
        blocking_seconds: 0.0,
        higher: &[],
        equals: &equals,
        own,
    };
    let bound = latency_with_probability(&queue, PROBABILITY, 10.0).unwrap();
    let mut longest = Duration::ZERO;
    let count = CASES.each(6, |seed| {
        for own in latencies(&mut Random::seeded(seed), &[0; 10]) {
            let share = share_above(&own, bound);
            assert!(share <= PROBABILITY, "{share} above {bound} s");
            longest = longest.max(own.into_iter().max().unwrap());
        }
    });
    println!("{count} seeds; the bound is {bound} s, the longest latency {longest:?}");
    assert!(count < 6 || longest.as_secs_f64() > bound / 3.0, "the bound is idle");
}

#[test]
fn a_tenant_of_lower_priority_keeps_its_probability_too() {
    let own = source();
    let (higher, equals) = ([own; 4], [own; 4]);
    let base = StochasticQueue {
        slot_seconds: SLOT_SECONDS,
        blocking_seconds: WORK_SECONDS,
        higher: &[],
        equals: &higher[1..],
        own,
    };
    let low = StochasticQueue { higher: &higher, equals: &equals, ..base };
    let [high, low] =
        [base, low].map(|queue| latency_with_probability(&queue, PROBABILITY, 10.0).unwrap());
    assert!(high < low, "{high} and {low}");
    CASES.each(6, |seed| {
        let priorities = [0, 0, 0, 0, 1, 1, 1, 1, 1];
        let all = latencies(&mut Random::seeded(seed), &priorities);
        for (own, priority) in all.iter().zip(priorities) {
            let bound = if priority == 0 { high } else { low };
            let share = share_above(own, bound);
            assert!(share <= PROBABILITY, "{share} above {bound} s with priority {priority}");
        }
    });
}

#[test]
fn independent_tenants_are_admitted_beyond_the_deterministic_bound() {
    let slo = 0.2;
    let mut random = Random::seeded(1);
    let mut admission = Admission::new(vec![device(0)], 0).unwrap();
    let mut sources = vec![];
    let (mut deterministic, mut stochastic) = (0, 0);
    for number in 0..18 {
        let arrival = |slot: u32| WorkArrival {
            at_seconds: f64::from(slot) * SLOT_SECONDS,
            work_seconds: WORK_SECONDS,
        };
        let arrivals = slots(&mut random).into_iter().map(arrival).collect();
        let trace = WorkTrace::new(arrivals, f64::from(SLOTS) * SLOT_SECONDS).unwrap();
        let flow = QueueFlow { queue: 0, curve: ArrivalCurve::of_trace(&trace).unwrap() };
        let candidate = Candidate::on_devices(name(&format!("t{number}")), slo, vec![flow]);
        let is_admitted = admission.admit(candidate).unwrap() == Verdict::Admitted;
        deterministic += usize::from(is_admitted);
        let own = MarkovSource::of_trace(&trace, SLOT_SECONDS).unwrap();
        let queue = StochasticQueue {
            slot_seconds: SLOT_SECONDS,
            blocking_seconds: 0.0,
            higher: &[],
            equals: &sources,
            own,
        };
        if violation_probability(&queue, slo) <= 0.001 {
            stochastic += 1;
            sources.push(own);
        }
    }
    println!("{deterministic} by the deterministic bound, {stochastic} by the stochastic one");
    assert!(deterministic > 0 && stochastic > deterministic);
}

#[test]
fn a_source_of_a_trace_has_the_probabilities_of_the_trace() {
    let arrival = |slot: u32| WorkArrival {
        at_seconds: f64::from(slot) * SLOT_SECONDS,
        work_seconds: WORK_SECONDS,
    };
    let arrivals = slots(&mut Random::seeded(3)).into_iter().map(arrival).collect();
    let trace = WorkTrace::new(arrivals, f64::from(SLOTS) * SLOT_SECONDS).unwrap();
    let fitted = MarkovSource::of_trace(&trace, SLOT_SECONDS).unwrap();
    assert!((fitted.on_share() - source().on_share()).abs() < 0.02, "{fitted:?}");
    let silent = WorkTrace::new(vec![], 1.0).unwrap();
    assert!(MarkovSource::of_trace(&silent, SLOT_SECONDS).is_err());
    for slot_seconds in [0.0, -1.0, 1e-9, f64::NAN] {
        assert!(MarkovSource::of_trace(&trace, slot_seconds).is_err(), "{slot_seconds}");
    }
}

#[test]
fn invalid_numbers_and_overload_never_give_a_bound() {
    for (start, stop, work) in
        [(0.0, 0.5, 1.0), (0.5, 1.5, 1.0), (0.5, 0.5, 0.0), (f64::NAN, 0.5, 1.0)]
    {
        assert!(MarkovSource::new(start, stop, work).is_err());
    }
    let own = source();
    let crowd = [own; 40];
    let queue = StochasticQueue {
        slot_seconds: SLOT_SECONDS,
        blocking_seconds: 0.0,
        higher: &[],
        equals: &crowd,
        own,
    };
    // More work than the queue can do.
    assert_eq!(violation_probability(&queue, 1e3), 1.0);
    assert_eq!(latency_with_probability(&queue, 0.5, 1e3), None);
    let queue = StochasticQueue { equals: &[], ..queue };
    assert_eq!(violation_probability(&queue, f64::NAN), 1.0);
    assert_eq!(
        violation_probability(&StochasticQueue { slot_seconds: f64::NAN, ..queue }, 1.0),
        1.0
    );
    assert!(violation_probability(&queue, 1.0) < 1e-6);
}
