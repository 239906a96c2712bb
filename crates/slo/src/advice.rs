//! Placement advice for `nacre slo advise`: which tenants to move to which targets so that all
//! latency promises can be kept.
//!
//! [`advise`] only decides; it moves nothing. It asks admission whether all tenants fit where they
//! are. If not, it tries to move one tenant to one target, and chooses the move after which the
//! fewest tenants do not fit. It repeats this until all fit, until no move helps, but at most
//! `MAX_ADVISED_MOVES` times. If some tenant still does not fit then, it proposes no moves.
//!
//! The advice does not consider network links: moving a tenant changes only the work of targets.
//!
//! After a move, a tenant brings all its traffic to one target. If its request rate is known, its
//! traffic there is computed from the rate. Otherwise the curves of its present targets are added.
//! If the profiles of two targets differ, the work of a request is scaled by the largest ratio over
//! all sizes.

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
    /// The tenants whose promise cannot be kept without moves.
    pub left_out: Vec<String>,
    /// The moves, in this order. Empty if all tenants fit without moves, or if no moves help.
    pub moves: Vec<Move>,
    /// Whether all promises can be kept after these moves.
    pub is_solved: bool,
    /// The latency bounds before and after the moves.
    pub tenants: Vec<AdvisedTenant>,
    /// The load of each target before and after.
    pub targets: Vec<AdvisedTarget>,
}

/// A tenant's objects go to another target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Move {
    /// The tenant.
    pub tenant: String,
    /// The targets that serve the tenant's requests now.
    pub from: Vec<String>,
    /// The only target that serves the tenant's requests after the move.
    pub to: String,
    /// The most work that the tenant brings to that target.
    #[serde(skip)]
    pub curve: ArrivalCurve,
}

/// The latency bounds of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedTenant {
    /// The tenant.
    pub tenant: String,
    /// The latency that the tenant was promised or asks for.
    pub slo_seconds: f64,
    /// The bound before the moves; `None` if the tenant does not fit.
    pub bound_seconds: Option<f64>,
    /// The bound after the moves; `None` if the tenant does not fit.
    pub bound_seconds_after: Option<f64>,
}

/// The load of a target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdvisedTarget {
    /// The target.
    pub target: String,
    /// How many times longer a request takes than in the profile; at least 1.
    pub slowdown: f64,
    /// The average work a second that all tenants bring, in seconds.
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
    /// For each target, the tenant's traffic if all its requests go there; `None` if the rate is
    /// unknown.
    alone: Option<Vec<QueueFlow>>,
}

/// For each tenant, its latency bound; `None` if it does not fit.
#[derive(Debug)]
struct Outcome {
    bounds: Vec<Option<f64>>,
}

struct Advisor<'a> {
    may_move: &'a dyn Fn(&TenantName) -> bool,
    profiles: Vec<(&'a TargetName, &'a StoredProfile)>,
    slowdowns: Vec<f64>,
}

/// Gives advice for the promises in `state` and for `newcomer`, a tenant that asks for a promise.
/// `slowdowns` says how many times longer requests take on each target than its profile says. Only
/// tenants that `may_move` are moved.
///
/// # Errors
/// `NotFound` if no target has a profile; `Invalid` if the newcomer's request for a promise is
/// malformed; `Stale` if a promise was made for a target that has no profile.
pub fn advise(
    state: &SloState,
    newcomer: Option<&Ask<'_>>,
    slowdowns: &BTreeMap<TargetName, f64>,
    may_move: &dyn Fn(&TenantName) -> bool,
) -> Result<Advice> {
    let profiles: Vec<_> = state.profiles.iter().collect();
    if profiles.is_empty() {
        return Err(Error::not_found("no target has a profile")
            .hint("measure what requests cost: nacre slo profile"));
    }
    let slowdown = |target| slowdowns.get(target).copied().unwrap_or(1.0).max(1.0);
    let slowdowns = profiles.iter().map(|(target, _)| slowdown(*target)).collect();
    let advisor = Advisor { may_move, profiles, slowdowns };
    let mut tenants = advisor.promised(state)?;
    if let Some(ask) = newcomer {
        tenants.retain(|tenant| tenant.name != ask.tenant);
        let flows = ask.traffic.flows(state, &ask.tenant)?;
        let alone = match &ask.traffic {
            Traffic::Rate(rate, _) => Some(rate.flows(state, Spread::Anywhere)?),
            Traffic::Trace { .. } | Traffic::Curves(_) => None,
        };
        let (name, slo_seconds, violation) = (ask.tenant.clone(), ask.slo_seconds, ask.violation);
        tenants.push(Tenant { name, slo_seconds, violation, flows, alone });
    }
    advisor.advise(tenants)
}

impl Advisor<'_> {
    /// The tenants with a promise, the shortest SLO first.
    fn promised(&self, state: &SloState) -> Result<Vec<Tenant>> {
        let mut tenants = vec![];
        for (name, promise) in &state.promises {
            let flow = |flow: &crate::PromisedFlow| {
                let known = |(target, _): &(&TargetName, _)| target.as_str() == flow.target;
                let queue = self.profiles.iter().position(known).ok_or_else(|| {
                    Error::stale(format!("the target {} has no profile", flow.target))
                        .on(name)
                        .hint(format!("admit it again: nacre slo evict {name}"))
                })?;
                Ok(QueueFlow { queue, curve: flow.curve.clone() })
            };
            let at_targets = promise.flows.iter().filter(|flow| !flow.is_at_link());
            let flows = at_targets.map(flow).collect::<Result<_>>()?;
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
            let moved = self.moved(&after[at], target)?;
            let Some(flow) = moved.flows.first() else { break };
            moves.push(Move {
                tenant: after[at].name.to_string(),
                from: after[at].flows.iter().map(|flow| self.name(flow.queue)).collect(),
                to: self.name(target),
                curve: flow.curve.clone(),
            });
            after[at] = moved;
            outcome = better;
        }
        let is_solved = outcome.left_out() == 0;
        if !is_solved {
            // The moves do not make all tenants fit, so they are not worth their cost.
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

    /// The best single move: the one after which the fewest tenants do not fit. Returns the index
    /// of the tenant, the index of the target, and the outcome. `None` if no move reduces the
    /// number of tenants that do not fit.
    fn best_move(
        &self,
        tenants: &[Tenant],
        now: &Outcome,
        moves: &[Move],
    ) -> Result<Option<(usize, usize, Outcome)>> {
        let mut best: Option<(usize, usize, Outcome)> = None;
        let mut fewest = now.left_out();
        for at in self.movers(tenants, now, moves) {
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

    /// The tenant as it would be with all its requests at one target.
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

    /// How many times longer a request takes at the target `to` than at the target `from`, by their
    /// profiles. Of the ratios for all sizes, this is the largest.
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

    /// The indices of tenants to try to move: those that do not fit first, then those that bring the
    /// least work. A tenant that was moved is not moved again.
    fn movers(&self, tenants: &[Tenant], now: &Outcome, moves: &[Move]) -> Vec<usize> {
        let is_moved =
            |at: usize| moves.iter().any(|done| done.tenant == tenants[at].name.as_str());
        let may_move = |at: usize| !is_moved(at) && (self.may_move)(&tenants[at].name);
        let rate =
            |at: usize| tenants[at].flows.iter().map(|flow| flow.curve.least_rate()).sum::<f64>();
        let mut movers: Vec<_> = (0..tenants.len()).filter(|at| may_move(*at)).collect();
        movers.sort_by(|one, other| {
            let fits = |at: usize| now.bounds[at].is_some();
            fits(*one).cmp(&fits(*other)).then(rate(*one).total_cmp(&rate(*other)))
        });
        movers.truncate(MAX_MOVERS);
        movers
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

/// The curve of requests that each take `factor` times as long.
pub(crate) fn scaled(curve: &ArrivalCurve, factor: f64) -> Result<ArrivalCurve> {
    let scaled = |line: &RateBurst| RateBurst {
        rate: line.rate * factor,
        burst_seconds: line.burst_seconds * factor,
    };
    ArrivalCurve::lower_envelope(&curve.lines().iter().map(scaled).collect::<Vec<_>>())
}
