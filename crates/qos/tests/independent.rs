//! Stochastic promises of independent tenants, in simulations. No more requests are late than
//! promised, more tenants are admitted than by the deterministic bound, and no deterministic
//! promise is weakened.

mod common;

use std::time::Duration;

use common::{bucket, curve, name};
use nacre_clock::Random;
use nacre_conformance::SeedCases;
use nacre_qos::scheduler::{DeviceLimits, KindLimits, TenantSettings, Ties};
use nacre_qos::simulate::{
    Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step, simulate,
};
use nacre_qos::{
    Admission, Admitted, BoundsQuestion, Candidate, IoKind, Queue, QueueFlow, RateBurst,
    SharedQueue, Verdict, bounds, late_probability,
};

const CASES: SeedCases =
    SeedCases { file: "independent_seeds.txt", text: include_str!("independent_seeds.txt") };
/// The work of a request.
const REQUEST_SECONDS: f64 = 0.002;
/// How many outstanding requests may delay a request of higher priority.
const OUTSTANDING: usize = 2;
/// The fraction of requests that may be late.
const VIOLATION: f64 = 0.01;
/// How many tenants ask for a promise, one after the other.
const TENANTS: usize = 24;
/// For how long each tenant sends requests.
const TRAFFIC_SECONDS: f64 = 100.0;

fn admission() -> Admission {
    let blocking_seconds = OUTSTANDING as f64 * REQUEST_SECONDS;
    let queue = Queue { name: "target".to_owned(), blocking_seconds };
    Admission::new(vec![queue], 0).unwrap()
}

fn on_target(tenant: &str, slo_seconds: f64, lines: &[(f64, f64)]) -> Candidate {
    let flow = QueueFlow { queue: 0, curve: curve(lines) };
    Candidate::on_devices(name(tenant), slo_seconds, vec![flow])
}

fn stochastic(candidate: Candidate) -> Candidate {
    Candidate { violation: Some(VIOLATION), ..candidate }
}

/// Tenants that are idle most of the time, and then send a burst.
fn candidates(random: &mut Random) -> Vec<Candidate> {
    let candidate = |number| {
        let slo_seconds = [0.06, 0.1, 0.1, 0.2][random.below(4) as usize];
        let burst = REQUEST_SECONDS * (3 + random.below(6)) as f64;
        let rate = 0.01 + 0.03 * random.below(1000) as f64 / 1000.0;
        on_target(&format!("t{number}"), slo_seconds, &[(rate, burst)])
    };
    (0..TENANTS).map(candidate).collect()
}

/// Sends bursts at random times, each as large as the token bucket allows.
fn bursts(random: &mut Random, limit: RateBurst) -> Vec<SimulatedRequest> {
    let mut random_part = || random.below(1 << 20) as f64 / f64::from(1 << 20);
    let refill = limit.burst_seconds / limit.rate;
    let (mut now, mut level) = (refill * random_part(), 0.0);
    let mut requests = vec![];
    while now < TRAFFIC_SECONDS {
        while level + REQUEST_SECONDS <= limit.burst_seconds {
            level += REQUEST_SECONDS;
            requests.push(request(now));
        }
        let gap = 2.0 * refill * random_part();
        level = (level - limit.rate * gap).max(0.0);
        now += gap;
    }
    requests
}

fn request(at: f64) -> SimulatedRequest {
    SimulatedRequest {
        // Rounded up, so that no bucket is a nanosecond short.
        at: Duration::from_nanos((at * 1e9).ceil() as u64 + 1),
        kind: IoKind::Read,
        bytes: 4096,
        legs: vec![vec![Step { queue: 0, work: Duration::from_secs_f64(REQUEST_SECONDS) }]],
    }
}

fn unbounded(settings: TenantSettings) -> TenantSettings {
    TenantSettings { queue_requests: usize::MAX, queue_bytes: u64::MAX, ..settings }
}

/// Simulates the admitted tenants, and a tenant without a promise that asks for half of the target.
/// Returns for each admitted tenant the fraction of its requests that were late.
fn late_parts(
    admission: &Admission,
    random: &mut Random,
    requests: impl Fn(&mut Random, &Admitted) -> Vec<SimulatedRequest>,
) -> Vec<f64> {
    let mut tenants = vec![];
    for (admitted, priority) in admission.tenants().iter().zip(admission.priorities()) {
        let settings = TenantSettings::promised(priority as u32, admitted.buckets.clone());
        let requests = requests(random, admitted);
        tenants.push(SimulatedTenant { settings: vec![(0, unbounded(settings))], requests });
    }
    let count = (TRAFFIC_SECONDS / REQUEST_SECONDS / 2.0) as usize;
    let times = (0..count).map(|number| number as f64 * 2.0 * REQUEST_SECONDS);
    let settings = vec![(0, unbounded(TenantSettings::weighted(1.0)))];
    tenants.push(SimulatedTenant { settings, requests: times.map(request).collect() });
    let kind = KindLimits { requests: OUTSTANDING / 2, bytes: 1 << 30 };
    let limits = DeviceLimits { reads: kind, writes: kind };
    let queue = SimulatedQueue { limits, ties: Ties::FirstCome, device: SimulatedDevice::Serial };
    let latencies = simulate(&Scenario { queues: vec![queue], tenants }).unwrap();
    let late = |(own, admitted): (&Vec<Duration>, &Admitted)| {
        let slo = admitted.candidate.slo_seconds + 1e-6;
        let late = own.iter().filter(|latency| latency.as_secs_f64() > slo).count();
        late as f64 / own.len().max(1) as f64
    };
    latencies.iter().zip(admission.tenants()).map(late).collect()
}

fn admit_all(candidates: impl IntoIterator<Item = Candidate>) -> Admission {
    let mut admission = admission();
    for candidate in candidates {
        admission.admit(candidate).unwrap();
    }
    admission
}

/// `NACRE_SEEDS=20` runs 100 seeds.
#[test]
fn stochastic_promises_are_kept_and_more_tenants_are_admitted() {
    let (mut deterministic, mut more, mut worst, mut requests) = (0, 0, 0.0_f64, 0);
    let count = CASES.each(5, |seed| {
        let mut random = Random::seeded(seed);
        let candidates = candidates(&mut random);
        let certain = admit_all(candidates.clone());
        let likely = admit_all(candidates.into_iter().map(stochastic));
        let (of_certain, of_likely) = (certain.tenants().len(), likely.tenants().len());
        assert!(
            of_likely >= of_certain,
            "{of_likely} are admitted, {of_certain} deterministically"
        );
        // The stochastic bound admits every tenant that the deterministic bound admits.
        let same = certain.tenants().iter().map(|admitted| stochastic(admitted.candidate.clone()));
        assert_eq!(admit_all(same).tenants().len(), of_certain);
        deterministic += of_certain;
        more += of_likely - of_certain;
        for probability in likely.probabilities() {
            assert!(probability <= VIOLATION, "{probability}");
        }
        let parts = late_parts(&likely, &mut random, |random, admitted| {
            bursts(random, admitted.buckets[0])
        });
        requests += parts.len();
        for (part, admitted) in parts.iter().zip(likely.tenants()) {
            let tenant = &admitted.candidate.tenant;
            assert!(*part <= VIOLATION, "{part} of the requests of {tenant} are late");
            worst = worst.max(*part);
        }
    });
    println!(
        "{count} seeds: {deterministic} admitted by the deterministic bound, {more} more by the stochastic one; of {requests} \
         tenants the worst had {worst} late"
    );
    assert!(count < 5 || more > deterministic / 4, "{more} more than {deterministic}");
}

/// Sends as much as the token bucket allows, as early as possible.
fn greedy(limit: RateBurst) -> Vec<SimulatedRequest> {
    let come_at = |work: f64| ((work - limit.burst_seconds) / limit.rate).max(0.0);
    let times = (1..).map(|number| come_at(f64::from(number) * REQUEST_SECONDS));
    times.take_while(|at| *at < TRAFFIC_SECONDS).map(request).collect()
}

#[test]
fn a_deterministic_promise_holds_beside_any_traffic_of_stochastic_ones() {
    let mut of_both = (0, 0);
    let count = CASES.each(5, |seed| {
        let mut random = Random::seeded(seed);
        let mixed = candidates(&mut random)
            .into_iter()
            .map(|candidate| if random.one_in(3) { candidate } else { stochastic(candidate) });
        let mixed: Vec<_> = mixed.collect();
        let admission = admit_all(mixed);
        // All tenants burst at once, so they are not independent at all.
        let parts = late_parts(&admission, &mut random, |_, admitted| greedy(admitted.buckets[0]));
        for (part, admitted) in parts.iter().zip(admission.tenants()) {
            match admitted.candidate.violation {
                Some(_) => of_both.1 += 1,
                None => {
                    of_both.0 += 1;
                    assert_eq!(*part, 0.0, "{} is late", admitted.candidate.tenant);
                }
            }
        }
    });
    assert!(count < 5 || (of_both.0 > 5 && of_both.1 > 20), "{of_both:?}");
}

#[test]
fn the_deterministic_promise_is_served_first_if_slos_are_equal() {
    let mut admission = admission();
    let likely = stochastic(on_target("likely", 0.1, &[(0.02, 0.02)]));
    assert_eq!(admission.admit(likely).unwrap(), Verdict::Admitted);
    let certain = on_target("certain", 0.1, &[(0.02, 0.02)]);
    assert_eq!(admission.admit(certain).unwrap(), Verdict::Admitted);
    let shorter = stochastic(on_target("shorter", 0.05, &[(0.02, 0.01)]));
    assert_eq!(admission.admit(shorter).unwrap(), Verdict::Admitted);
    assert_eq!(admission.priorities(), [2, 1, 0]);
}

#[test]
fn the_bound_of_a_deterministic_promise_counts_all_bursts_of_stochastic_promises() {
    let mut admission = admission();
    for number in 0..6 {
        let likely = stochastic(on_target(&format!("likely{number}"), 0.05, &[(0.01, 0.01)]));
        assert_eq!(admission.admit(likely).unwrap(), Verdict::Admitted, "likely{number}");
    }
    // The latency includes six bursts of 10 ms, the outstanding requests, and the tenant's own 10
    // ms.
    let certain = |slo| on_target("certain", slo, &[(0.01, 0.01)]);
    assert!(!admission.fits(&certain(0.070)).unwrap());
    assert!(admission.fits(&certain(0.085)).unwrap());
}

#[test]
fn a_refusal_names_the_bound_that_decided() {
    let mut admission = admission();
    admission.admit(on_target("first", 0.05, &[(0.2, 0.04)])).unwrap();
    let late = on_target("late", 0.05, &[(0.2, 0.04)]);
    let text = admission.refusal(&late, &[]).unwrap().unwrap().to_string();
    assert!(text.starts_with("late is refused with 50.0 ms by the deterministic bound"), "{text}");
    let text = admission.refusal(&stochastic(late), &[]).unwrap().unwrap().to_string();
    let begin = "late is refused with 50.0 ms by the stochastic bound for a violation of 0.01";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains("late would miss its 50.0 ms with a probability of"), "{text}");
}

#[test]
fn an_impossible_violation_is_invalid() {
    let good = on_target("a", 0.1, &[(0.1, 0.01)]);
    for violation in [0.0, 1.0, -0.1, 2.0, f64::NAN] {
        let wrong = Candidate { violation: Some(violation), ..good.clone() };
        assert!(admission().admit(wrong).is_err(), "{violation}");
    }
    let flow = |queue| QueueFlow { queue, curve: curve(&[(0.1, 0.01)]) };
    let in_series = Candidate {
        legs: vec![vec![0, 1]],
        ..stochastic(Candidate::on_devices(name("a"), 0.1, vec![flow(0), flow(1)]))
    };
    let queues =
        ["link", "target"].map(|name| Queue { name: name.to_owned(), blocking_seconds: 0.0 });
    assert!(Admission::new(queues.into(), 0).unwrap().admit(in_series).is_err());
}

#[test]
fn the_bound_of_given_buckets_may_be_stochastic() {
    let tenant = |number: usize, violation: &str| {
        format!(
            r#"{{"tenant": "t{number}", "slo_seconds": 0.1{violation},
               "flows": [{{"queue": "disk", "rate": 0.02, "burst_seconds": 0.02}}]}}"#
        )
    };
    let latencies = |violation: &str| {
        let tenants: Vec<_> = (0..8).map(|number| tenant(number, violation)).collect();
        let text =
            format!(r#"{{"queues": [{{"name": "disk"}}], "tenants": [{}]}}"#, tenants.join(","));
        let question: BoundsQuestion = serde_json::from_str(&text).unwrap();
        bounds(&question).unwrap()
    };
    let (certain, likely) = (latencies(""), latencies(r#", "violation": 0.01"#));
    assert!(certain.iter().all(|bound| !bound.is_kept));
    assert!(likely.iter().all(|bound| bound.is_kept && bound.violation == Some(0.01)));
    assert!((certain[0].latency_seconds.unwrap() - 0.16).abs() < 1e-9);
}

/// Eight flows and one more.
fn shared<'a>(equals: &'a [RateBurst], own: RateBurst) -> SharedQueue<'a> {
    SharedQueue { blocking_seconds: 0.0, certain: bucket(0.0, 0.0), higher: &[], equals, own }
}

#[test]
fn a_longer_latency_is_less_likely_and_one_above_the_deterministic_bound_is_impossible() {
    let flow = bucket(0.02, 0.02);
    let equals = [flow; 8];
    let queue = shared(&equals, flow);
    let probabilities = [0.06, 0.08, 0.1, 0.12].map(|latency| late_probability(&queue, latency));
    assert!(probabilities.is_sorted_by(|one, next| one > next), "{probabilities:?}");
    assert!(probabilities[2] < 0.01, "{probabilities:?}");
    assert_eq!(late_probability(&queue, 0.25), 0.0);
}

#[test]
fn certain_work_delays_more_than_independent_work() {
    let flow = bucket(0.02, 0.02);
    let (few, more) = ([flow; 4], [flow; 5]);
    let independent = late_probability(&shared(&more, flow), 0.08);
    let higher = SharedQueue { higher: &few[..1], equals: &few, ..shared(&[], flow) };
    let certain = SharedQueue { certain: flow, equals: &few, ..shared(&[], flow) };
    assert!(independent <= late_probability(&higher, 0.08));
    assert!(late_probability(&higher, 0.08) < late_probability(&certain, 0.08));
}

#[test]
fn invalid_numbers_give_the_probability_1() {
    let flow = bucket(0.1, 0.01);
    let (few, many) = ([flow; 2], [flow; 20]);
    assert_eq!(late_probability(&shared(&many, flow), 1e3), 1.0, "more than the queue can do");
    for latency in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        assert_eq!(late_probability(&shared(&few, flow), latency), 1.0, "{latency}");
    }
    let none = bucket(f64::NAN, 0.01);
    assert_eq!(late_probability(&shared(&few, none), 1.0), 1.0);
    assert_eq!(late_probability(&shared(&[none], flow), 1.0), 1.0);
    let blocked = SharedQueue { blocking_seconds: f64::NAN, ..shared(&few, flow) };
    assert_eq!(late_probability(&blocked, 1.0), 1.0);
    assert_eq!(late_probability(&shared(&[bucket(0.0, 0.0)], flow), 1.0), 0.0);
}
