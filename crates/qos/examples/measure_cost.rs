//! What placing tenants and deciding costs: `cargo run --release -p nacre-qos --example measure_cost`.

use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::TenantName;
use nacre_qos::scheduler::{DeviceLimits, NewRequest, Next, Scheduler, TenantSettings, Ties, Work};
use nacre_qos::{ArrivalCurve, FirstFit, IoKind, PlacedTenant, Queue, RateBurst, first_fit, meets};

const TENANTS: usize = 1000;
const TARGETS: usize = 100;

/// Requests that wait while decisions are measured.
const QUEUED: usize = 10_000;
const DECISIONS: u32 = 1_000_000;

fn main() {
    for tenants in [10, 100, 1000] {
        decide(tenants).unwrap_or_else(|error| panic!("{error}"));
    }
    place();
}

/// Decides with 10,000 requests in queues: each decision takes one request, sends one and completes it.
fn decide(tenants: usize) -> nacre_object::Result<()> {
    let mut scheduler = Scheduler::new(DeviceLimits::default(), Ties::FirstCome)?;
    let clock = SystemClock::default();
    let mut ids = vec![];
    for number in 0..tenants {
        let bucket = RateBurst { rate: 0.9 / tenants as f64, burst_seconds: 0.01 };
        let settings = match number % 4 {
            0 => TenantSettings::weighted(1.0),
            _ => TenantSettings::promised(number as u32 % 16, vec![bucket; 2]),
        };
        ids.push(scheduler.add_tenant(settings, clock.monotonic())?);
    }
    let work = Work::seconds(1e-5)?;
    let of = |tenant| NewRequest { tenant, kind: IoKind::Read, bytes: 4096, work, deadline: None };
    for number in 0..QUEUED {
        scheduler.enqueue(of(ids[number % tenants]), clock.monotonic())?;
    }
    let start = clock.monotonic();
    for _ in 0..DECISIONS {
        let now = clock.monotonic();
        let Next::Send(sent) = scheduler.next(now) else { continue };
        scheduler.complete(sent.request, None, now);
        scheduler.enqueue(of(sent.tenant), now)?;
    }
    let nanos = (clock.monotonic() - start).as_nanos() / u128::from(DECISIONS);
    println!(
        "{nanos} ns to take, send and complete a request, with {tenants} tenants and {} queued",
        scheduler.queued()
    );
    Ok(())
}

/// Places 1,000 tenants of 12 segments each on 100 targets, and checks every promise again.
fn place() {
    let mut random = Random::seeded(1);
    let tenants = (0..TENANTS).map(|number| tenant(&mut random, number)).collect();
    let target = |number| Queue { name: format!("target-{number}"), blocking_seconds: 1e-4 };
    let targets = (0..TARGETS).map(target).collect();
    let clock = SystemClock::default();
    let placement =
        first_fit(targets, tenants, FirstFit::Fast).unwrap_or_else(|error| panic!("{error}"));
    let seconds = clock.monotonic().as_secs_f64();
    let placed = placement.targets.iter().flatten().count();
    let used = placement.targets.iter().flatten().max().map_or(0, |target| target + 1);
    let latencies = placement.admission.latencies();
    let tenants = placement.admission.tenants().iter();
    let kept = tenants
        .zip(latencies)
        .filter(|(tenant, latency)| meets(*latency, tenant.candidate.slo_seconds))
        .count();
    println!(
        "{placed} of {TENANTS} tenants on {used} of {TARGETS} targets in {seconds:.2} s, with {} programs; \
         {kept} promises confirmed",
        placement.programs
    );
}

/// A tenant with 12 segments, a twelfth of a target in the middle, and an SLO of 20 to 160 ms.
fn tenant(random: &mut Random, number: usize) -> PlacedTenant {
    let slo_seconds = 0.02 * f64::from(1 << random.below(4));
    let mut part = || (1 + random.below(1000)) as f64 / 1000.0;
    let (mut rate, mut burst) = (0.1 + 0.3 * part(), slo_seconds * 0.02 * part());
    let mut lines = vec![];
    for _ in 0..12 {
        lines.push(RateBurst { rate, burst_seconds: burst });
        rate *= 0.75 + 0.2 * part();
        burst *= 1.1 + 0.5 * part();
    }
    let curve = ArrivalCurve::lower_envelope(&lines).unwrap_or_else(|error| panic!("{error}"));
    let tenant = TenantName::new(format!("t{number}")).unwrap_or_else(|error| panic!("{error}"));
    PlacedTenant { tenant, slo_seconds, curve }
}
