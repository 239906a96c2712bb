//! The linear program that chooses the token buckets of all tenants.
//! [`Admission::admit`](super::Admission::admit) solves it.
//!
//! Each flow (a tenant's traffic at one queue) has a rate `r` and a burst `b`. The program
//! minimises the sum of the rates, which leaves the most capacity for further tenants. To leave a
//! margin for rounding, it makes each SLO a thousandth shorter. The rows are:
//!
//! - `b` is at least the burst that the flow needs at the rate `r` (its r-b curve): one row for
//!   each pair of neighbouring segments.
//! - The rates at each queue add up to at most 0.999.
//! - The latency along each path of queues is at most the SLO. There is one row for each path, each
//!   tenant that uses it (with the SLO `S`), and each queue `j` on it. Of the flows with an SLO up
//!   to `S`, the row takes the bursts at all queues of the path, divided by `S`. Of the flows with
//!   a shorter SLO, it takes the rates at `j`. The sum is at most 1. This is the latency bound of
//!   the calculus, rearranged.
//!
//! A stochastic promise has no row for its latency, because its bound is not linear. Instead the
//! caller tries several weights for the bursts of these tenants ([`Stochastic`]). In the rows of
//! deterministic promises these tenants count like all others.
//!
//! Some coefficients are as small as 6e-8, and the solver would ignore them, because its tolerance
//! is absolute. So each row is scaled to a largest coefficient of 1, and the unit of a tenant's
//! burst is its SLO.

use std::collections::{BTreeMap, BTreeSet};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use super::candidate::Rank;
use super::{Candidate, Queue, Sharing};
use crate::RateBurst;

/// The fraction of a queue's rate and of an SLO that the program uses. The remaining thousandth is
/// a margin for rounding.
pub(super) const USABLE: f64 = 0.999;
/// How far the solution may violate a row, whose largest coefficient is 1.
const ROW_TOLERANCE: f64 = 1e-10;
/// In a program that may overrun: the weight of the rates, compared with that of the overrun.
const RATE_WEIGHT: f64 = 1e-6;

/// Whether the program must keep the promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promises {
    /// The program must keep all promises. If it cannot, it has no solution.
    Kept,
    /// The program may break promises. All latencies may exceed their SLOs by a common factor,
    /// which the program minimises. Queues may get more work than they can do.
    Overrun,
}

/// How the buckets of tenants with stochastic promises are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stochastic {
    /// The buckets must keep these promises as if they were deterministic.
    Bounded,
    /// The program minimises the sum of the tenants' rates plus this weight times the sum of their
    /// bursts. The unit of a burst is the tenant's SLO.
    Weighted(f64),
}

impl Stochastic {
    /// All choices, in the order in which they are tried.
    pub(super) const ALL: [Self; 5] = [
        Self::Bounded,
        Self::Weighted(1.0),
        Self::Weighted(0.3),
        Self::Weighted(0.1),
        Self::Weighted(0.0),
    ];

    /// The choices to try for these tenants: only the first if no tenant has a stochastic promise.
    pub(super) fn tried(tenants: &[&Candidate]) -> &'static [Self] {
        let is_stochastic = |tenant: &&Candidate| tenant.violation.is_some();
        if tenants.iter().any(is_stochastic) { &Self::ALL } else { &Self::ALL[..1] }
    }

    /// Whether the promise of a tenant is a row of the program.
    fn has_row(self, tenant: &Candidate) -> bool {
        tenant.violation.is_none() || self == Self::Bounded
    }

    /// The weight of a tenant's burst in the sum that the program minimises. A rate has the weight
    /// 1.
    fn burst_weight(self, tenant: &Candidate) -> f64 {
        match self {
            Self::Weighted(weight) if tenant.violation.is_some() => weight,
            Self::Weighted(_) | Self::Bounded => 0.0,
        }
    }
}

/// Finds one token bucket for each flow of each tenant; `None` if there is no solution.
///
/// Each bucket has at least the burst that its flow needs at the rate of the bucket, even if the
/// solver rounded down. The caller must still check that every promise is kept.
pub(super) fn solve(
    queues: &[Queue],
    tenants: &[&Candidate],
    promises: Promises,
    stochastic: Stochastic,
) -> Option<Vec<Vec<RateBurst>>> {
    let mut program = Program::new(tenants, promises, stochastic);
    program.add_curves(tenants);
    if promises == Promises::Kept {
        program.add_capacities(queues, tenants);
    }
    program.add_promises(queues, tenants, stochastic);
    program.solve(tenants)
}

struct Program {
    problem: Problem,
    /// For each tenant and each of its flows: the variables of its rate and its burst.
    variables: Vec<Vec<(Variable, Variable)>>,
    /// By how much latencies may exceed their SLOs, if they may.
    overrun: Option<Variable>,
}

/// The SLO of a tenant as the program uses it.
fn usable(tenant: &Candidate) -> f64 {
    tenant.slo_seconds * USABLE
}

impl Program {
    fn new(tenants: &[&Candidate], promises: Promises, stochastic: Stochastic) -> Self {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let (weight, highest_rate, highest_burst, overrun) = match promises {
            Promises::Kept => (1.0, USABLE, USABLE, None),
            Promises::Overrun => {
                let overrun = problem.add_var(1.0, (0.0, f64::INFINITY));
                (RATE_WEIGHT, f64::INFINITY, f64::INFINITY, Some(overrun))
            }
        };
        let mut variables = vec![];
        for tenant in tenants {
            let mut pair = |_| {
                let rate = problem.add_var(weight, (0.0, highest_rate));
                let burst_weight = weight * stochastic.burst_weight(tenant);
                (rate, problem.add_var(burst_weight, (0.0, highest_burst)))
            };
            variables.push(match tenant.sharing {
                Sharing::OwnBuckets => (0..tenant.flows.len()).map(pair).collect(),
                Sharing::Uniform => vec![pair(0); tenant.flows.len()],
            });
        }
        Self { problem, variables, overrun }
    }

    /// Adds a row, scaled to a largest coefficient of 1.
    fn add_row(&mut self, row: BTreeMap<Sortable, f64>, comparison: ComparisonOp, bound: f64) {
        let largest = row.values().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        if largest > 0.0 {
            let terms: Vec<_> =
                row.into_iter().map(|(variable, value)| (variable.0, value / largest)).collect();
            self.problem.add_constraint(&terms[..], comparison, bound / largest);
        }
    }

    fn add_curves(&mut self, tenants: &[&Candidate]) {
        for (at, tenant) in tenants.iter().enumerate() {
            for (flow, traffic) in tenant.flows.iter().enumerate() {
                let (rate, burst) = self.variables[at][flow];
                let slo = usable(tenant);
                let lines = traffic.curve.lines();
                for pair in lines.windows(2) {
                    let [high, low] = [pair[0], pair[1]];
                    let row = BTreeMap::from([
                        (Sortable(rate), low.burst_seconds - high.burst_seconds),
                        (Sortable(burst), (high.rate - low.rate) * slo),
                    ]);
                    let bound = high.rate * low.burst_seconds - low.rate * high.burst_seconds;
                    self.add_row(row, ComparisonOp::Ge, bound);
                }
                if let [first, .., last] | [first @ last] = lines {
                    let one = |variable, value| BTreeMap::from([(Sortable(variable), value)]);
                    self.add_row(one(burst, slo), ComparisonOp::Ge, first.burst_seconds);
                    self.add_row(one(rate, 1.0), ComparisonOp::Ge, last.rate);
                }
            }
        }
    }

    fn add_capacities(&mut self, queues: &[Queue], tenants: &[&Candidate]) {
        for queue in 0..queues.len() {
            let mut row = BTreeMap::new();
            for (at, tenant) in tenants.iter().enumerate() {
                if let Some(flow) = flow_at(tenant, queue) {
                    row.insert(Sortable(self.variables[at][flow].0), 1.0);
                }
            }
            self.add_row(row, ComparisonOp::Le, USABLE);
        }
    }

    fn add_promises(&mut self, queues: &[Queue], tenants: &[&Candidate], stochastic: Stochastic) {
        let with_row = tenants.iter().copied().filter(|tenant| stochastic.has_row(tenant));
        for (way, rank) in ways(with_row) {
            let blocking: f64 = way.iter().map(|queue| queues[*queue].blocking_seconds).sum();
            for queue in &way {
                let row = self.promise(tenants, &way, *queue, rank);
                let usable = rank.slo_seconds * USABLE;
                self.add_row(row, ComparisonOp::Le, 1.0 - blocking / usable);
            }
        }
    }

    /// The row of one queue on a path.
    fn promise(
        &self,
        tenants: &[&Candidate],
        way: &[usize],
        queue: usize,
        rank: Rank,
    ) -> BTreeMap<Sortable, f64> {
        let mut row = BTreeMap::new();
        let slo = rank.slo_seconds * USABLE;
        for (at, tenant) in tenants.iter().enumerate().filter(|(_, tenant)| tenant.rank() <= rank) {
            for (flow, traffic) in tenant.flows.iter().enumerate() {
                let (rate, burst) = self.variables[at][flow];
                if way.contains(&traffic.queue) {
                    *row.entry(Sortable(burst)).or_insert(0.0) += usable(tenant) / slo;
                }
                if traffic.queue == queue && tenant.rank() < rank {
                    *row.entry(Sortable(rate)).or_insert(0.0) += 1.0;
                }
            }
        }
        if let Some(overrun) = self.overrun {
            row.insert(Sortable(overrun), -1.0);
        }
        row
    }

    fn solve(self, tenants: &[&Candidate]) -> Option<Vec<Vec<RateBurst>>> {
        let mut options = SolveOptions::default();
        options.tolerances.feasibility = ROW_TOLERANCE;
        let outcome = self.problem.solve_with(options).ok()?;
        let solution = outcome.solution()?;
        let buckets = tenants.iter().zip(&self.variables).map(|(tenant, variables)| {
            let bucket = |(rate, burst): &(Variable, Variable)| RateBurst {
                rate: solution.var_value(*rate),
                burst_seconds: solution.var_value(*burst) * usable(tenant),
            };
            raised(tenant, variables.iter().map(bucket).collect())
        });
        Some(buckets.collect())
    }
}

/// Raises buckets to the r-b curves of their flows, if rounding left them below.
fn raised(tenant: &Candidate, mut buckets: Vec<RateBurst>) -> Vec<RateBurst> {
    for (bucket, flow) in buckets.iter_mut().zip(&tenant.flows) {
        bucket.rate = bucket.rate.max(flow.curve.least_rate());
        let least = flow.curve.burst_at(bucket.rate).unwrap_or(f64::INFINITY);
        bucket.burst_seconds = bucket.burst_seconds.max(least);
    }
    if tenant.sharing == Sharing::Uniform {
        let most = |of: fn(&RateBurst) -> f64| buckets.iter().map(of).fold(0.0, f64::max);
        let rate = most(|bucket| bucket.rate);
        let burst_seconds = most(|bucket| bucket.burst_seconds);
        buckets.fill(RateBurst { rate, burst_seconds });
    }
    buckets
}

fn flow_at(tenant: &Candidate, queue: usize) -> Option<usize> {
    tenant.flows.iter().position(|flow| flow.queue == queue)
}

/// The paths through queues, each with the rank of a tenant that uses it.
fn ways<'a>(tenants: impl Iterator<Item = &'a Candidate>) -> BTreeSet<(Vec<usize>, Rank)> {
    let of = |tenant: &'a Candidate| {
        let queues = |leg: &Vec<usize>| leg.iter().map(|flow| tenant.flows[*flow].queue).collect();
        tenant.legs.iter().map(|leg| (queues(leg), tenant.rank())).collect::<Vec<_>>()
    };
    tenants.flat_map(of).collect()
}

/// A variable that can be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sortable(Variable);

impl PartialOrd for Sortable {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sortable {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.idx().cmp(&other.0.idx())
    }
}
