//! First fit: places each tenant on the first target where all promises can be kept.

use nacre_object::{Result, TenantName};

use super::program::USABLE;
use super::{Admission, Candidate, Queue, QueueFlow, Verdict};
use crate::{ArrivalCurve, RateBurst};

/// How many weights [`is_ruled_out`] tries for the row of the target's capacity.
const WEIGHTS: u32 = 10;
/// A bound on the rounding error of a sum of some hundred numbers up to 1.
const ROUNDING: f64 = 1e-9;

/// A tenant that needs a target.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedTenant {
    /// The tenant.
    pub tenant: TenantName,
    /// The promised latency. With a deterministic promise, no request exceeds it. With a stochastic
    /// promise, at most the fraction `violation` of the requests does.
    pub slo_seconds: f64,
    /// The fraction of the tenant's requests that may take longer ([`Candidate::violation`]).
    pub violation: Option<f64>,
    /// The work that it brings to its target.
    pub curve: ArrivalCurve,
}

/// How [`first_fit`] decides whether a tenant fits on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstFit {
    /// It solves the linear program for each target.
    Plain,
    /// Like `Plain`, but first skips each target at which two rows of the linear program already
    /// rule the tenant out. The resulting placement is the same.
    #[default]
    Fast,
}

/// Which target each tenant got.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The admitted tenants with their buckets.
    pub admission: Admission,
    /// The target of each tenant, in the order in which the tenants were given; `None` if the
    /// tenant fits on no target.
    pub targets: Vec<Option<usize>>,
    /// How many linear programs were solved.
    pub programs: u64,
}

/// Places the tenants on targets, one after the other in the given order.
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
            if mode == FirstFit::Fast && is_ruled_out(loads, &load, placement.blocking(target)) {
                continue;
            }
            placement.programs += 1;
            if placement.admission.admit(tenant.on(target))? == Verdict::Admitted {
                loads.push(load.clone());
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
    /// The tenant with all its objects on this target.
    pub fn on(&self, target: usize) -> Candidate {
        let flow = QueueFlow { queue: target, curve: self.curve.clone() };
        Candidate {
            violation: self.violation,
            ..Candidate::on_devices(self.tenant.clone(), self.slo_seconds, vec![flow])
        }
    }
}

/// What a tenant requires of its target.
#[derive(Debug, Clone)]
struct Load {
    slo_seconds: f64,
    is_stochastic: bool,
    /// The corners of the tenant's r-b curve, which says what burst the tenant needs at each rate.
    corners: Vec<RateBurst>,
}

impl Load {
    fn of(tenant: &PlacedTenant) -> Self {
        let corners = tenant.curve.lines().to_vec();
        let is_stochastic = tenant.violation.is_some();
        Self { slo_seconds: tenant.slo_seconds * USABLE, is_stochastic, corners }
    }

    /// The least that this tenant adds to a row of the linear program with these weights. Its
    /// bucket lies on or above its r-b curve (the least burst for each rate), so the minimum is at
    /// a corner of that curve.
    fn least(&self, rate_weight: f64, burst_weight: f64) -> f64 {
        let at =
            |corner: &RateBurst| rate_weight * corner.rate + burst_weight * corner.burst_seconds;
        self.corners.iter().map(at).fold(f64::INFINITY, f64::min)
    }
}

/// Whether two rows of the linear program show that the tenants do not fit on a target together.
/// One row is the target's capacity, the other is one tenant's promise. Adds the two rows with
/// several weights. The tenants do not fit if the least possible value of such a sum exceeds its
/// limit. A stochastic promise has no row.
fn is_ruled_out(loads: &[Load], more: &Load, blocking_seconds: f64) -> bool {
    let all = || loads.iter().chain([more]);
    let rates: f64 = all().map(|load| load.least(1.0, 0.0)).sum();
    if rates > USABLE + ROUNDING {
        return true;
    }
    all().filter(|load| !load.is_stochastic).any(|promised| {
        let slo = promised.slo_seconds;
        (0..=WEIGHTS).any(|step| {
            let capacity = f64::from(step) / f64::from(WEIGHTS);
            let promise = 1.0 - capacity;
            let least = all().map(|load| match load.slo_seconds {
                own if own < slo => load.least(1.0, promise / slo),
                own if own == slo && !load.is_stochastic => load.least(capacity, promise / slo),
                _ => load.least(capacity, 0.0),
            });
            let most = capacity * USABLE + promise * (1.0 - blocking_seconds / slo);
            // If the sum exceeds the limit only by a rounding error, the solver decides.
            least.sum::<f64>() > most + ROUNDING
        })
    })
}
