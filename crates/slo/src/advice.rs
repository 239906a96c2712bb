//! Placement advice: which tenants to move to which targets so that all promises can be kept.
//!
//! [`advise`] only decides; it moves nothing. It asks admission whether all tenants fit as they
//! are. If not, it searches for the move of one tenant to one target after which the fewest tenants
//! do not fit. It repeats this until all fit. It proposes moves only if all tenants fit after them;
//! otherwise it reports that it found none.
//!
//! If a tenant's rate is unknown, it is assumed to bring to its new target the traffic of all its
//! targets together. Where the profiles of two targets differ, every request is scaled by the
//! largest ratio over all sizes.

use std::collections::BTreeMap;

use nacre_object::{Error, Result, TargetName, TenantName};
use nacre_qos::{Admission, ArrivalCurve, Candidate, IoKind, Queue, QueueFlow, RateBurst, Verdict};
use serde::Serialize;

use crate::limits::{MAX_ADVISED_MOVES, MAX_MOVERS};
use crate::records::{SloState, StoredProfile};
use crate::slos::Ask;
use crate::traffic::{Spread, Traffic};

/// Which tenants to move, and the result of these moves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Tenants whose promise cannot be kept as things are.
    pub left_out: Vec<String>,
    /// The moves, in this order. Empty if all tenants fit already, or if no moves were found.
    pub moves: Vec<Move>,
    /// Whether all promises can be kept after these moves.
    pub is_solved: bool,
    /// The longest latencies before and after.
    pub tenants: Vec<AdvisedTenant>,
    /// The load of each target before and after.
    pub targets: Vec<AdvisedTarget>,
}

/// A tenant's objects go to another target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Move {
    /// The tenant.
    pub tenant: String,
    /// The targets that it has requests at now.
    pub from: Vec<String>,
    /// The only target that has the tenant's requests afterwards.
    pub to: String,
}

/// The longest latency of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedTenant {
    /// The tenant.
    pub tenant: String,
    /// What it was promised, or asks for.
    pub slo_seconds: f64,
    /// The bound before the moves; `None` if the tenant does not fit.
    pub bound_seconds: Option<f64>,
    /// The bound after the moves; `None` if the tenant does not fit.
    pub bound_seconds_after: Option<f64>,
}

/// What a target is asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedTarget {
    /// The target.
    pub target: String,
    /// The measured time of a request divided by the time in the profile; at least 1.
    pub slowdown: f64,
    /// The average work a second that all tenants ask for, in seconds.
    pub load: f64,
    /// The same after the moves.
    pub load_after: f64,
}

/// A tenant with its curve at each target.
#[derive(Debug, Clone)]
struct Tenant {
    name: TenantName,
    slo_seconds: f64,
    violation: Option<f64>,
    flows: Vec<QueueFlow>,
    /// For each target, the flow if all requests of the tenant go there, if that is known.
    alone: Option<Vec<QueueFlow>>,
}

/// Who fits, and how well.
#[derive(Debug)]
struct Outcome {
    bounds: Vec<Option<f64>>,
}

struct Advisor<'a> {
    profiles: Vec<(&'a TargetName, &'a StoredProfile)>,
    slowdowns: Vec<f64>,
}

/// Gives advice for the promises in `state`, and for a tenant that asks for a promise, if there is
/// one. `slowdowns` holds, for each target, the measured time of a request divided by the time in
/// the profile.
///
/// # Errors
/// `NotFound` if no target has a profile; `Invalid` if the newcomer's question is malformed;
/// `Stale` if a promise was made for a target that has no profile.
pub fn advise(
    state: &SloState,
    newcomer: Option<&Ask<'_>>,
    slowdowns: &BTreeMap<TargetName, f64>,
) -> Result<Advice> {
    let profiles: Vec<_> = state.profiles.iter().collect();
    if profiles.is_empty() {
        return Err(Error::not_found("no target has a profile")
            .hint("measure what requests cost: nacre slo profile"));
    }
    let slowdown = |target| slowdowns.get(target).copied().unwrap_or(1.0).max(1.0);
    let slowdowns = profiles.iter().map(|(target, _)| slowdown(*target)).collect();
    let advisor = Advisor { profiles, slowdowns };
    let mut tenants = advisor.promised(state)?;
    if let Some(ask) = newcomer {
        tenants.retain(|tenant| tenant.name != ask.tenant);
        let flows = ask.traffic.flows(state)?;
        let alone = match &ask.traffic {
            Traffic::Rate(rate, _) => Some(Traffic::Rate(*rate, Spread::Anywhere).flows(state)?),
            Traffic::Trace { .. } | Traffic::Curves(_) => None,
        };
        let (name, slo_seconds, violation) = (ask.tenant.clone(), ask.slo_seconds, ask.violation);
        tenants.push(Tenant { name, slo_seconds, violation, flows, alone });
    }
    advisor.advise(tenants)
}

impl Advisor<'_> {
    /// The tenants that have promises, those with the shortest first.
    fn promised(&self, state: &SloState) -> Result<Vec<Tenant>> {
        let mut tenants = vec![];
        for (name, promise) in &state.promises {
            let flow = |flow: &crate::PromisedFlow| {
                let known = |(target, _): &(&TargetName, _)| target.as_str() == flow.target;
                let queue = self.profiles.iter().position(known).ok_or_else(|| {
                    Error::stale(format!("{} has no profile", flow.target))
                        .on(name)
                        .hint(format!("admit it again: nacre slo evict {name}"))
                })?;
                Ok(QueueFlow { queue, curve: flow.curve.clone() })
            };
            let flows = promise.flows.iter().map(flow).collect::<Result<_>>()?;
            let (name, slo_seconds) = (name.clone(), promise.slo_seconds);
            let violation = promise.violation;
            tenants.push(Tenant { name, slo_seconds, violation, flows, alone: None });
        }
        tenants.sort_by(|one, other| one.slo_seconds.total_cmp(&other.slo_seconds));
        Ok(tenants)
    }

    fn advise(&self, before: Vec<Tenant>) -> Result<Advice> {
        let now = self.outcome(&before)?;
        let (mut after, mut outcome, mut moves) = (before.clone(), self.outcome(&before)?, vec![]);
        while outcome.left_out() > 0 && moves.len() < MAX_ADVISED_MOVES {
            let Some((at, target, better)) = self.best_move(&after, &outcome, &moves)? else {
                break;
            };
            moves.push(Move {
                tenant: after[at].name.to_string(),
                from: after[at].flows.iter().map(|flow| self.name(flow.queue)).collect(),
                to: self.name(target),
            });
            after[at] = self.moved(&after[at], target)?;
            outcome = better;
        }
        let is_solved = outcome.left_out() == 0;
        if !is_solved {
            // Moves after which some tenant still does not fit are not worth their work.
            moves.clear();
            after.clone_from(&before);
            outcome = self.outcome(&before)?;
        }
        let is_left_out = |(_, bound): &(&Tenant, &Option<f64>)| bound.is_none();
        let left_out = before.iter().zip(&now.bounds).filter(is_left_out);
        let tenants = before.iter().zip(&now.bounds).zip(&outcome.bounds);
        let (load, load_after) = (self.loads(&before), self.loads(&after));
        Ok(Advice {
            left_out: left_out.map(|(tenant, _)| tenant.name.to_string()).collect(),
            moves,
            is_solved,
            tenants: tenants
                .map(|((tenant, bound), after)| AdvisedTenant {
                    tenant: tenant.name.to_string(),
                    slo_seconds: tenant.slo_seconds,
                    bound_seconds: *bound,
                    bound_seconds_after: *after,
                })
                .collect(),
            targets: (0..self.profiles.len())
                .map(|target| AdvisedTarget {
                    target: self.name(target),
                    slowdown: self.slowdowns[target],
                    load: load[target],
                    load_after: load_after[target],
                })
                .collect(),
        })
    }

    /// The move after which the fewest tenants do not fit: the tenant, the target, the outcome.
    /// `None` if no move reduces their number.
    fn best_move(
        &self,
        tenants: &[Tenant],
        now: &Outcome,
        moves: &[Move],
    ) -> Result<Option<(usize, usize, Outcome)>> {
        let mut best: Option<(usize, usize, Outcome)> = None;
        let mut fewest = now.left_out();
        for at in movers(tenants, now, moves) {
            for target in 0..self.profiles.len() {
                if matches!(&tenants[at].flows[..], [flow] if flow.queue == target) {
                    continue;
                }
                let mut tried = tenants.to_vec();
                tried[at] = self.moved(&tenants[at], target)?;
                let outcome = self.outcome(&tried)?;
                if outcome.left_out() < fewest {
                    fewest = outcome.left_out();
                    best = Some((at, target, outcome));
                }
                if fewest == 0 {
                    return Ok(best);
                }
            }
        }
        Ok(best)
    }

    /// The tenant with all its requests at one target.
    fn moved(&self, tenant: &Tenant, target: usize) -> Result<Tenant> {
        if let Some(alone) = &tenant.alone {
            return Ok(Tenant { flows: vec![alone[target].clone()], ..tenant.clone() });
        }
        let mut all: Option<ArrivalCurve> = None;
        for flow in &tenant.flows {
            let curve = scaled(&flow.curve, self.ratio(flow.queue, target))?;
            all = Some(match all {
                Some(sum) => sum.plus(&curve).pruned(nacre_qos::limits::MAX_CURVE_SEGMENTS),
                None => curve,
            });
        }
        let flows = all.map(|curve| QueueFlow { queue: target, curve }).into_iter().collect();
        Ok(Tenant { flows, ..tenant.clone() })
    }

    /// How much longer a request takes at the target `to` than at `from`, by their profiles: the
    /// largest ratio over all sizes.
    fn ratio(&self, from: usize, to: usize) -> f64 {
        if from == to {
            return 1.0;
        }
        let (from, to) = (&self.profiles[from].1.profile, &self.profiles[to].1.profile);
        let sizes = from.rows().iter().chain(to.rows()).map(|row| row.bytes);
        let of_size = |bytes| {
            IoKind::ALL.map(|kind| to.work_seconds(kind, bytes) / from.work_seconds(kind, bytes))
        };
        sizes.flat_map(of_size).filter(|ratio| ratio.is_finite()).fold(0.0, f64::max)
    }

    fn outcome(&self, tenants: &[Tenant]) -> Result<Outcome> {
        let queue = |((target, stored), slowdown): (&(&TargetName, &StoredProfile), &f64)| Queue {
            name: target.to_string(),
            blocking_seconds: stored.blocking_seconds() * slowdown,
        };
        let queues = self.profiles.iter().zip(&self.slowdowns).map(queue).collect();
        let mut admission = Admission::new(queues, 0)?;
        let mut is_in = vec![];
        for tenant in tenants {
            let flow = |flow: &QueueFlow| {
                let curve = scaled(&flow.curve, self.slowdowns[flow.queue])?;
                Ok(QueueFlow { queue: flow.queue, curve })
            };
            let flows = tenant.flows.iter().map(flow).collect::<Result<_>>()?;
            let candidate = Candidate {
                violation: tenant.violation,
                ..Candidate::on_devices(tenant.name.clone(), tenant.slo_seconds, flows)
            };
            is_in.push(admission.admit(candidate)? == Verdict::Admitted);
        }
        let mut bounds = admission.latencies().into_iter();
        let bound = |is_in: bool| if is_in { bounds.next().flatten() } else { None };
        Ok(Outcome { bounds: is_in.into_iter().map(bound).collect() })
    }

    fn loads(&self, tenants: &[Tenant]) -> Vec<f64> {
        let mut loads = vec![0.0; self.profiles.len()];
        for flow in tenants.iter().flat_map(|tenant| &tenant.flows) {
            loads[flow.queue] += flow.curve.least_rate() * self.slowdowns[flow.queue];
        }
        loads
    }

    fn name(&self, target: usize) -> String {
        self.profiles[target].0.to_string()
    }
}

impl Outcome {
    fn left_out(&self) -> usize {
        self.bounds.iter().filter(|bound| bound.is_none()).count()
    }
}

/// The tenants that may be moved. Tenants that do not fit come first, then those that ask for the
/// least work. No tenant is moved twice.
fn movers(tenants: &[Tenant], now: &Outcome, moves: &[Move]) -> Vec<usize> {
    let is_moved = |at: usize| moves.iter().any(|done| done.tenant == tenants[at].name.as_str());
    let rate =
        |at: usize| tenants[at].flows.iter().map(|flow| flow.curve.least_rate()).sum::<f64>();
    let mut movers: Vec<_> = (0..tenants.len()).filter(|at| !is_moved(*at)).collect();
    movers.sort_by(|one, other| {
        let fits = |at: usize| now.bounds[at].is_some();
        fits(*one).cmp(&fits(*other)).then(rate(*one).total_cmp(&rate(*other)))
    });
    movers.truncate(MAX_MOVERS);
    movers
}

/// The curve of requests that each take `factor` times as long.
fn scaled(curve: &ArrivalCurve, factor: f64) -> Result<ArrivalCurve> {
    let scaled = |line: &RateBurst| RateBurst {
        rate: line.rate * factor,
        burst_seconds: line.burst_seconds * factor,
    };
    ArrivalCurve::lower_envelope(&curve.lines().iter().map(scaled).collect::<Vec<_>>())
}
