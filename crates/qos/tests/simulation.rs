//! Tests that no request within its token buckets takes longer than its latency bound, whatever
//! other tenants send. Also tests that the bound is tight: greedy traffic comes close to it.

mod common;
mod simulated;

use std::time::Duration;

use common::{bucket, curve, device, name};
use nacre_conformance::SeedCases;
use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits, TenantSettings, Ties};
use nacre_qos::simulate::{
    Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step, simulate,
};
use nacre_qos::{
    Admission, Candidate, Flow, IoKind, QueueFlow, RateBurst, Service, Verdict, queue_delays,
};
use simulated::{Told, run};

const CASES: SeedCases =
    SeedCases { file: "simulation_seeds.txt", text: include_str!("simulation_seeds.txt") };

/// `NACRE_SEEDS=200` runs 10,000 seeds.
#[test]
fn no_conforming_request_takes_longer_than_its_bound() {
    play(Commits::Singly);
}

#[test]
fn no_conforming_request_takes_longer_than_its_bound_if_writes_are_committed_in_groups() {
    play(Commits::InGroups);
}

fn play(commits: Commits) {
    let mut all = Told::default();
    let count = CASES.each(50, |seed| {
        let told = run(seed, commits).unwrap_or_else(|error| panic!("{error}"));
        all.add(&told);
    });
    println!("{count} seeds, {commits:?}: {all:?}");
    let is_idle = all.tenants < 50 || all.refused < 20 || all.rogues < 5;
    assert!(count < 50 || !is_idle, "{all:?}");
    // A group may be as large as all outstanding writes, but mostly is smaller.
    let near = if commits.are_single() { 0.5 } else { 0.4 };
    assert!(count < 50 || all.highest_ratio > near, "no latency comes near its bound: {all:?}");
}

/// A device that serves one request at a time.
fn one_at_a_time(ties: Ties) -> SimulatedQueue {
    let limits = KindLimits { requests: 1, bytes: 1 << 30 };
    SimulatedQueue {
        limits: DeviceLimits { reads: limits, writes: limits },
        ties,
        device: SimulatedDevice::Serial,
    }
}

/// A tenant at queue 0 that sends `seconds` of work as early as its bucket `limit` allows. Each
/// request is `size` seconds of work.
fn greedy(priority: u32, limit: RateBurst, size: f64, seconds: f64) -> SimulatedTenant {
    let count = (seconds / size) as usize;
    let requests = (0..count).map(|number| {
        let work = size * (number + 1) as f64;
        let at = ((work - limit.burst_seconds) / limit.rate).max(0.0);
        let step = Step { queue: 0, work: Duration::from_secs_f64(size) };
        SimulatedRequest {
            at: Duration::from_secs_f64(at),
            kind: IoKind::Read,
            bytes: 4096,
            legs: vec![vec![step]],
        }
    });
    let settings = TenantSettings {
        queue_requests: usize::MAX,
        queue_bytes: u64::MAX,
        ..TenantSettings::promised(priority, vec![limit])
    };
    SimulatedTenant { settings: vec![(0, settings)], requests: requests.collect() }
}

fn longest(latencies: &[Duration]) -> f64 {
    latencies.iter().max().map_or(0.0, Duration::as_secs_f64)
}

#[test]
fn greedy_traffic_reaches_nine_tenths_of_the_bound_of_a_queue() {
    let flows = [(0.25, 0.5, 1), (0.125, 1.0, 1), (0.125, 0.25, 2), (0.5, 2.25, 2)];
    let flow = |(rate, burst, priority)| Flow { bucket: bucket(rate, burst), priority };
    let bounds = queue_delays(Service::DEVICE, &flows.map(flow));
    let size = 1.0 / 1024.0;
    let tenants = flows.map(|(rate, burst, priority)| {
        greedy(priority as u32, bucket(rate, burst), size, burst + 8.0 * rate)
    });
    let scenario =
        Scenario { queues: vec![one_at_a_time(Ties::FirstCome)], tenants: tenants.to_vec() };
    let latencies = simulate(&scenario).unwrap();
    for (at, own) in latencies.iter().enumerate() {
        let (bound, blocking) = (bounds[at].unwrap(), 3.0 * size);
        let longest = longest(own);
        assert!(longest <= bound + blocking / (1.0 - 0.375), "{longest} over {bound}");
    }
    for priority in [1, 2] {
        let of_class = (0..4).filter(|at| flows[*at].2 == priority);
        let worst = of_class.clone().map(|at| longest(&latencies[at])).fold(0.0, f64::max);
        let bound = of_class.map(|at| bounds[at].unwrap()).fold(0.0, f64::max);
        assert!(worst >= 0.9 * bound, "{worst} of {bound}");
    }
}

#[test]
fn tenants_that_take_turns_can_exceed_their_latency_bound() {
    let (small, large) = (bucket(0.1, 0.05), bucket(0.8, 0.05));
    let flows = [small, large].map(|bucket| Flow { bucket, priority: 0 });
    let bound = queue_delays(Service::DEVICE, &flows)[0].unwrap();
    let worst = |ties| {
        let tenants = vec![greedy(0, small, 0.0001, 0.1), greedy(0, large, 0.01, 2.0)];
        let scenario = Scenario { queues: vec![one_at_a_time(ties)], tenants };
        longest(&simulate(&scenario).unwrap()[0])
    };
    // One large request may be at the device when a small one comes.
    assert!(worst(Ties::FirstCome) <= bound + 0.011, "{}", worst(Ties::FirstCome));
    assert!(worst(Ties::Turns) > 1.5 * bound, "{}", worst(Ties::Turns));
}

#[test]
fn a_refused_tenant_would_make_a_promise_fail_if_it_were_admitted() {
    let slo = 1.0;
    let limit = bucket(0.3, 0.55);
    let candidate = |tenant: &str| {
        let flow = QueueFlow { queue: 0, curve: curve(&[(0.3, 0.55)]) };
        Candidate::on_devices(name(tenant), slo, vec![flow])
    };
    let mut admission = Admission::new(vec![device(0)], 0).unwrap();
    assert_eq!(admission.admit(candidate("first")).unwrap(), Verdict::Admitted);
    assert_eq!(admission.admit(candidate("second")).unwrap(), Verdict::Refused);
    let miss = |count: usize| {
        let tenants = vec![greedy(0, limit, 0.001, 2.0); count];
        let scenario = Scenario { queues: vec![one_at_a_time(Ties::FirstCome)], tenants };
        simulate(&scenario).unwrap().iter().map(|own| longest(own)).fold(0.0, f64::max)
    };
    assert!(miss(1) <= slo, "{}", miss(1));
    assert!(miss(2) > slo, "{}", miss(2));
}

#[test]
fn a_burst_outside_the_limits_delays_no_tenant_within_its_limits() {
    let (high, low) = (bucket(0.2, 0.01), bucket(0.3, 0.05));
    let tenants = |priority| {
        // The first tenant brings ten times as much as its bucket allows.
        let rogue = greedy(0, bucket(2.0, 0.1), 0.001, 2.0);
        let limits = TenantSettings {
            queue_requests: usize::MAX,
            queue_bytes: u64::MAX,
            ..TenantSettings::promised(0, vec![high])
        };
        let rogue = SimulatedTenant { settings: vec![(0, limits)], ..rogue };
        vec![rogue, greedy(priority, low, 0.001, 1.0)]
    };
    let scenario = Scenario { queues: vec![one_at_a_time(Ties::FirstCome)], tenants: tenants(1) };
    let flows = [Flow { bucket: high, priority: 0 }, Flow { bucket: low, priority: 1 }];
    let service = Service { latency_seconds: 0.003, ..Service::DEVICE };
    let bound = queue_delays(service, &flows)[1].unwrap();
    let latencies = simulate(&scenario).unwrap();
    assert!(longest(&latencies[1]) <= bound, "{} over {bound}", longest(&latencies[1]));
    assert!(longest(&latencies[0]) > 5.0 * bound, "the rogue waits for its own excess");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for commits in [Commits::Singly, Commits::InGroups] {
        let told = |seed| format!("{:?}", run(seed, commits));
        assert_eq!(told(3), told(3));
    }
}

#[test]
fn an_invalid_scenario_is_refused() {
    let tenant = greedy(0, bucket(0.5, 0.1), 0.01, 0.1);
    let without_queue = Scenario { queues: vec![], tenants: vec![tenant.clone()] };
    assert!(simulate(&without_queue).unwrap_err().to_string().contains("no queue 0"));
    let full = TenantSettings { queue_requests: 1, ..tenant.settings[0].1.clone() };
    let tenants = vec![SimulatedTenant { settings: vec![(0, full)], ..tenant }];
    let scenario = Scenario { queues: vec![one_at_a_time(Ties::FirstCome)], tenants };
    assert!(simulate(&scenario).unwrap_err().to_string().contains("no room"));
}
