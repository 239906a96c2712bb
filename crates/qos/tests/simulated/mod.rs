//! Generates random topologies, tenants and traffic from a seed, and checks their simulated
//! latencies.

use std::time::Duration;

use nacre_clock::Random;
use nacre_qos::scheduler::{Commits, DeviceLimits, KindLimits, Share, TenantSettings, Ties};
use nacre_qos::simulate::{
    NextGroup, Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step,
    simulate,
};
use nacre_qos::{
    Admission, Admitted, Candidate, IoKind, Queue, QueueFlow, RateBurst, Sharing, Verdict,
};

use crate::common::{name, random_curve};

/// The longest request.
const LONGEST_SECONDS: f64 = 0.002;
/// Requests of each tenant.
const REQUESTS: u64 = 250;
/// The simulated clock counts nanoseconds. This bounds the sum of the rounding errors of thousands
/// of requests.
const ROUNDING_SECONDS: f64 = 1e-5;

/// How a tenant sends its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// As soon as its buckets allow.
    Greedy,
    /// Greedy for a while, and then silent.
    Bursty,
    /// At random times.
    Random,
    /// It sends more than its buckets allow, so the excess has no promise.
    Rogue,
}

/// The results of a run.
#[derive(Debug, Default)]
pub struct Told {
    pub tenants: usize,
    pub refused: usize,
    pub rogues: usize,
    pub requests: usize,
    /// The highest ratio of a latency of a conforming tenant to its bound.
    pub highest_ratio: f64,
}

impl Told {
    pub fn add(&mut self, other: &Self) {
        self.tenants += other.tenants;
        self.refused += other.refused;
        self.rogues += other.rogues;
        self.requests += other.requests;
        self.highest_ratio = self.highest_ratio.max(other.highest_ratio);
    }
}

/// The queues of a topology, and the ways through them.
struct Topology {
    queues: usize,
    legs: Vec<Vec<usize>>,
}

fn topology(random: &mut Random) -> Topology {
    let targets = 1 + random.below(3) as usize;
    match random.below(3) {
        0 => Topology { queues: 1, legs: vec![vec![0]] },
        1 => Topology { queues: targets, legs: (0..targets).map(|target| vec![target]).collect() },
        // A link to the targets, and one back.
        _ => Topology {
            queues: targets + 2,
            legs: (2..targets + 2).map(|target| vec![0, target, 1]).collect(),
        },
    }
}

/// A random device that commits writes in groups, and the least work of a write: its part of the
/// syncs.
fn device(
    random: &mut Random,
    limits: DeviceLimits,
    admission: &Admission,
) -> (SimulatedDevice, f64) {
    let next = *random.pick(&[NextGroup::AtOnce, NextGroup::Gathered]).unwrap();
    let passes = |flow: usize, candidate: &Candidate| {
        candidate.legs.iter().flatten().filter(|own| **own == flow).count() as f64
    };
    // Every request must fit into its bucket.
    let bursts = admission.tenants().iter().flat_map(|tenant| {
        let of = |(flow, bucket): (usize, &RateBurst)| {
            bucket.burst_seconds / passes(flow, &tenant.candidate)
        };
        tenant.buckets.iter().enumerate().map(of).collect::<Vec<_>>()
    });
    let part = (1 + random.below(1000)) as f64 / 1000.0;
    let least = bursts.fold(LONGEST_SECONDS, f64::min) * part;
    let sync = Duration::from_secs_f64(least * limits.writes.requests as f64 / 2.0);
    (SimulatedDevice::Groups { sync, next }, least)
}

/// Runs a seed. Returns an error if a conforming request took longer than its bound.
pub fn run(seed: u64, commits: Commits) -> Result<Told, String> {
    let mut random = Random::seeded(seed);
    let topology = topology(&mut random);
    let mut limits = || KindLimits { requests: 1 + random.below(2) as usize, bytes: 1 << 30 };
    let mut limits = DeviceLimits { reads: limits(), writes: limits() };
    if commits == Commits::InGroups {
        // One group is synced while another gathers.
        limits.writes.requests *= 2;
    }
    let of = |kind: KindLimits| kind.requests as f64 * LONGEST_SECONDS;
    let blocking_seconds = commits.blocking_seconds(of(limits.reads), of(limits.writes));
    let queue = |number| Queue { name: format!("queue {number}"), blocking_seconds };
    let mut admission = Admission::new((0..topology.queues).map(queue).collect(), 0).unwrap();
    let mut told = Told::default();
    for number in 0..2 + random.below(8) {
        match admission.admit(candidate(&mut random, &topology, number)).unwrap() {
            Verdict::Admitted => told.tenants += 1,
            Verdict::Refused => told.refused += 1,
        }
    }
    let (device, least_work) = match commits {
        Commits::Singly => (SimulatedDevice::Serial, 1e-9),
        Commits::InGroups => device(&mut random, limits, &admission),
    };
    let queue = SimulatedQueue { limits, ties: Ties::FirstCome, device };
    let mut scenario = Scenario { queues: vec![queue; topology.queues], tenants: vec![] };
    let mut habits = vec![];
    for (tenant, priority) in admission.tenants().iter().zip(admission.priorities()) {
        let habit = [Habit::Greedy, Habit::Greedy, Habit::Bursty, Habit::Random, Habit::Rogue]
            [random.below(5) as usize];
        habits.push(habit);
        let buckets = tenant.candidate.flows.iter().zip(&tenant.buckets);
        let settings = buckets.map(|(flow, bucket)| {
            let share = Share::Promised { priority: priority as u32, buckets: vec![*bucket] };
            (flow.queue, TenantSettings { share, ..unbounded() })
        });
        let settings = settings.collect();
        let requests = traffic(&mut random, tenant, habit, least_work);
        scenario.tenants.push(SimulatedTenant { settings, requests });
    }
    for _ in 0..random.below(3) {
        scenario.tenants.push(bystander(&mut random, &topology, least_work));
    }
    let latencies = simulate(&scenario).map_err(|error| error.to_string())?;
    told.rogues = habits.iter().filter(|habit| **habit == Habit::Rogue).count();
    let bounds = admission.latencies();
    for (at, habit) in habits.iter().enumerate().filter(|(_, habit)| **habit != Habit::Rogue) {
        let bound = bounds[at].ok_or("an admitted tenant has no bound")?;
        told.requests += latencies[at].len();
        for (request, latency) in latencies[at].iter().enumerate() {
            let latency = latency.as_secs_f64();
            told.highest_ratio = told.highest_ratio.max(latency / bound);
            if latency > bound + ROUNDING_SECONDS {
                return Err(format!(
                    "request {request} of tenant {at} ({habit:?}) took {latency} s with a bound of {bound} s"
                ));
            }
        }
    }
    Ok(told)
}

fn unbounded() -> TenantSettings {
    TenantSettings {
        queue_requests: usize::MAX,
        queue_bytes: u64::MAX,
        ..TenantSettings::weighted(1.0)
    }
}

fn candidate(random: &mut Random, topology: &Topology, number: u64) -> Candidate {
    let slo_seconds = [0.03, 0.06, 0.06, 0.12, 0.25][random.below(5) as usize];
    let stages = topology.legs[0].len() as f64;
    let mut legs: Vec<Vec<usize>> = topology.legs.clone();
    while legs.len() > 1 && random.one_in(3) {
        legs.pop();
    }
    let mut queues: Vec<_> = legs.iter().flatten().copied().collect();
    queues.sort_unstable();
    queues.dedup();
    let flow = |queue| QueueFlow { queue, curve: random_curve(random, 0.3, slo_seconds / stages) };
    let flows: Vec<_> = queues.iter().copied().map(flow).collect();
    let flow_of = |queue: &usize| queues.iter().position(|own| own == queue).unwrap();
    let legs = legs.iter().map(|leg| leg.iter().map(flow_of).collect()).collect();
    Candidate {
        tenant: name(&format!("t{number}")),
        slo_seconds,
        violation: None,
        flows,
        legs,
        sharing: if random.one_in(4) { Sharing::Uniform } else { Sharing::OwnBuckets },
        placement_epoch: 0,
    }
}

/// Requests that stay within the buckets, unless the tenant is a rogue.
fn traffic(
    random: &mut Random,
    Admitted { candidate, buckets }: &Admitted,
    habit: Habit,
    least_work: f64,
) -> Vec<SimulatedRequest> {
    let mut now = 0.0;
    let mut levels = vec![(0.0_f64, 0.0_f64); buckets.len()];
    let mut requests = vec![];
    // Large requests, small ones, or both.
    let largest = [0.02, 0.2, 1.0][random.below(3) as usize];
    for _ in 0..REQUESTS {
        let goes_everywhere = random.one_in(5);
        let chosen = random.pick(&candidate.legs).unwrap();
        let legs = if goes_everywhere { candidate.legs.clone() } else { vec![chosen.clone()] };
        let passes = |flow: usize| legs.iter().flatten().filter(|own| **own == flow).count() as f64;
        let part = largest * (1 + random.below(1000)) as f64 / 1000.0;
        let room = (0..buckets.len())
            .filter(|flow| passes(*flow) > 0.0)
            .map(|flow| buckets[flow].burst_seconds / passes(flow));
        let most = room.fold(LONGEST_SECONDS, f64::min);
        let work = ((most * part * 1e9).floor() / 1e9).max(least_work);
        now += match habit {
            Habit::Greedy => 0.0,
            Habit::Bursty if random.one_in(40) => random.below(1000) as f64 / 2000.0,
            Habit::Bursty => 0.0,
            Habit::Random | Habit::Rogue => random.below(1000) as f64 / 1e5,
        };
        if habit != Habit::Rogue {
            for flow in 0..buckets.len() {
                let (bucket, (level, last)) = (buckets[flow], levels[flow]);
                let over = level + passes(flow) * work - bucket.burst_seconds;
                if passes(flow) > 0.0 && over > 0.0 {
                    now = f64::max(now, last + over / bucket.rate);
                }
            }
            // The clock of the simulation reads whole nanoseconds.
            now = (now * 1e9).ceil() / 1e9 + 1e-9;
            for flow in 0..buckets.len() {
                let (level, last) = levels[flow];
                let left = (level - buckets[flow].rate * (now - last)).max(0.0);
                levels[flow] = (left + passes(flow) * work, now);
            }
        }
        let step = |flow: &usize| Step {
            queue: candidate.flows[*flow].queue,
            work: Duration::from_secs_f64(work),
        };
        requests.push(SimulatedRequest {
            at: Duration::from_secs_f64(now),
            kind: *random.pick(&IoKind::ALL).unwrap(),
            bytes: 4096,
            legs: legs.iter().map(|leg| leg.iter().map(step).collect()).collect(),
        });
    }
    requests
}

/// A tenant without a promise that asks for as much as it can get.
fn bystander(random: &mut Random, topology: &Topology, least_work: f64) -> SimulatedTenant {
    let settings = (0..topology.queues).map(|queue| (queue, unbounded())).collect();
    let mut now = Duration::ZERO;
    let mut request = |_| {
        now += Duration::from_micros(random.below(3000));
        let leg = random.pick(&topology.legs).unwrap();
        let work = LONGEST_SECONDS * random.below(1001) as f64 / 1000.0;
        let work =
            Duration::from_secs_f64(if least_work > 1e-9 { work.max(least_work) } else { work });
        SimulatedRequest {
            at: now,
            kind: *random.pick(&IoKind::ALL).unwrap(),
            bytes: 65_536,
            legs: vec![leg.iter().map(|queue| Step { queue: *queue, work }).collect()],
        }
    };
    SimulatedTenant { settings, requests: (0..2 * REQUESTS).map(&mut request).collect() }
}
