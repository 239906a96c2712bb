//! First fit: each tenant goes to the first target on which everybody meets the promise.

use nacre_object::{Result, TenantName};

use super::program::USABLE;
use super::{Admission, Candidate, Queue, QueueFlow, Sharing, Verdict};
use crate::ArrivalCurve;

/// A tenant that needs a target.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedTenant {
    /// The tenant.
    pub tenant: TenantName,
    /// The latency that no request exceeds.
    pub slo_seconds: f64,
    /// The work that it brings to whichever target it has.
    pub curve: ArrivalCurve,
}

/// How targets are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstFit {
    /// The linear program is solved for each target.
    Plain,
    /// A target whose least rates and bursts alone rule the tenant out is skipped. The placement is the same.
    #[default]
    Fast,
}

/// Where tenants were placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Who is where, and what was promised.
    pub admission: Admission,
    /// The target of each tenant, in the order in which they were given; `None` if it fits nowhere.
    pub targets: Vec<Option<usize>>,
    /// Linear programs that were solved.
    pub programs: u64,
}

/// Places tenants on targets, in the order in which they are given.
///
/// # Errors
/// As [`Admission::new`] and [`Admission::admit`].
pub fn first_fit(
    targets: Vec<Queue>,
    tenants: Vec<PlacedTenant>,
    mode: FirstFit,
) -> Result<Placement> {
    let mut loads = vec![vec![]; targets.len()];
    let admission = Admission::new(targets, 0)?;
    let mut placement = Placement { admission, targets: vec![], programs: 0 };
    for tenant in tenants {
        let load = Load::of(&tenant);
        let mut chosen = None;
        for (target, loads) in loads.iter_mut().enumerate() {
            if mode == FirstFit::Fast && is_ruled_out(loads, load, placement.blocking(target)) {
                continue;
            }
            placement.programs += 1;
            if placement.admission.admit(tenant.on(target))? == Verdict::Admitted {
                loads.push(load);
                chosen = Some(target);
                break;
            }
        }
        placement.targets.push(chosen);
    }
    Ok(placement)
}

impl Placement {
    fn blocking(&self, target: usize) -> f64 {
        self.admission.queues()[target].blocking_seconds
    }
}

impl PlacedTenant {
    fn on(&self, queue: usize) -> Candidate {
        Candidate {
            tenant: self.tenant.clone(),
            slo_seconds: self.slo_seconds,
            flows: vec![QueueFlow { queue, curve: self.curve.clone() }],
            legs: vec![vec![0]],
            sharing: Sharing::OwnBuckets,
            placement_epoch: 0,
        }
    }
}

/// The least that a tenant can be given.
#[derive(Debug, Clone, Copy)]
struct Load {
    slo_seconds: f64,
    rate: f64,
    burst_seconds: f64,
}

impl Load {
    fn of(tenant: &PlacedTenant) -> Self {
        let burst = tenant.curve.lines().first().map_or(0.0, |line| line.burst_seconds);
        Self {
            slo_seconds: tenant.slo_seconds * USABLE,
            rate: tenant.curve.least_rate(),
            burst_seconds: burst,
        }
    }
}

/// Whether no rates and bursts can keep the promises on a target with these loads and one more.
fn is_ruled_out(loads: &[Load], more: Load, blocking_seconds: f64) -> bool {
    let all = || loads.iter().copied().chain([more]);
    if all().map(|load| load.rate).sum::<f64>() > USABLE {
        return true;
    }
    all().any(|promised| {
        let slo = promised.slo_seconds;
        let used = all().filter(|load| load.slo_seconds <= slo).map(|load| {
            let rate = if load.slo_seconds < slo { load.rate } else { 0.0 };
            load.burst_seconds / slo + rate
        });
        used.sum::<f64>() + blocking_seconds / slo > 1.0
    })
}
