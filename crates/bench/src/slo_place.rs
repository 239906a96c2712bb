//! `slo-place`: targets for a thousand tenants; the calculus confirms every promise again.

use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{Error, Result, TenantName};
use nacre_qos::{ArrivalCurve, FirstFit, PlacedTenant, Queue, RateBurst, first_fit, meets};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

const TENANTS: usize = 1000;
const TARGETS: usize = 100;
/// The number of segments of a tenant's curve: the most that a curve may have.
const SEGMENTS: usize = nacre_qos::limits::MAX_CURVE_SEGMENTS;
const AIM_SECONDS: f64 = 60.0;

pub(crate) fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let mut seconds = vec![];
    for round in 0..setup.rounds {
        seconds.push(place(round as u64 + 1)?);
    }
    let name = format!("{TENANTS} tenants, {TARGETS} targets");
    let (of, aim) = (("slo-place", name, "s"), ("the aim", AIM_SECONDS));
    report(Figure::new(of, Better::Lower, median(seconds), aim).aiming_at(1.0));
    Ok(())
}

fn place(seed: u64) -> Result<f64> {
    let mut random = Random::seeded(seed);
    let tenants = (0..TENANTS).map(|number| tenant(&mut random, number)).collect::<Result<_>>()?;
    let target = |number| Queue { name: format!("target-{number}"), blocking_seconds: 1e-4 };
    let targets = (0..TARGETS).map(target).collect();
    let clock = SystemClock::default();
    let placement = first_fit(targets, tenants, FirstFit::Fast)?;
    let seconds = clock.monotonic().as_secs_f64();
    let placed = placement.targets.iter().flatten().count();
    let latencies = placement.admission.latencies();
    let mut admitted = placement.admission.tenants().iter().zip(latencies);
    let are_kept = admitted.all(|(one, latency)| meets(latency, one.candidate.slo_seconds));
    match placed == TENANTS && are_kept {
        true => Ok(seconds),
        false => Err(Error::corrupt(format!("only {placed} of {TENANTS} tenants were placed"))),
    }
}

/// A tenant with about a twelfth of a target, and an SLO of 20 to 160 ms.
fn tenant(random: &mut Random, number: usize) -> Result<PlacedTenant> {
    let slo_seconds = 0.02 * f64::from(1 << random.below(4));
    let mut part = || (1 + random.below(1000)) as f64 / 1000.0;
    let (mut rate, mut burst) = (0.1 + 0.3 * part(), slo_seconds * 0.02 * part());
    let mut lines = vec![];
    for _ in 0..SEGMENTS {
        lines.push(RateBurst { rate, burst_seconds: burst });
        rate *= 0.75 + 0.2 * part();
        burst *= 1.1 + 0.5 * part();
    }
    let curve = ArrivalCurve::lower_envelope(&lines)?;
    let tenant = TenantName::new(format!("t{number}"))?;
    Ok(PlacedTenant { tenant, slo_seconds, violation: None, curve })
}
