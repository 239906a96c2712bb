//! The linear program that chooses rates and bursts.
//!
//! Each flow has a rate `r` and a burst `b`. The program minimises the sum of the rates, which
//! leaves the most capacity for further tenants. SLOs are made a thousandth shorter. The rows are:
//!
//! - `(r, b)` lies on or above the flow's r-b curve: one row for each two neighbouring segments.
//! - The rates at each queue add up to 0.999 at most.
//! - One row for each leg, each SLO `S` of a tenant that takes this leg, and each queue `j` of the
//!   leg. It adds the bursts of all flows on the leg with an SLO up to `S`, divided by `S`. It also
//!   adds the rates at `j` of the flows with a shorter SLO. The sum is 1 at most. This is the bound
//!   of the calculus, solved for 1.
//!
//! A stochastic promise has no such row of its own, because its bound is not linear. The caller
//! tries several weights of the bursts of these tenants beside their rates ([`Stochastic`]). In the
//! rows of deterministic promises these tenants count like all others.
//!
//! Coefficients reach 6e-8, and the solver keeps rows within an absolute tolerance. So each row is
//! scaled to a largest coefficient of 1, and a burst is expressed in SLOs of its tenant.

use std::collections::{BTreeMap, BTreeSet};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use super::candidate::Rank;
use super::{Candidate, Queue, Sharing};
use crate::RateBurst;

/// The highest sum of rates, and the part of an SLO that may be used. The rest is room for
/// rounding.
pub(super) const USABLE: f64 = 0.999;
/// How far the solution may violate a row, whose largest coefficient is 1.
const ROW_TOLERANCE: f64 = 1e-10;
/// The weight of the rates beside the overrun, in a program that may overrun.
const RATE_WEIGHT: f64 = 1e-6;

/// Whether the program must keep the promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promises {
    /// It must; otherwise it has no solution.
    Kept,
    /// All latencies may exceed their SLOs by a common factor, which is minimised, and queues may
    /// have too much work.
    Overrun,
}

/// How the buckets of tenants with stochastic promises are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stochastic {
    /// The calculus must confirm their promises as if they were deterministic.
    Bounded,
    /// Minimises the sum of their rates and of their bursts, where bursts are in SLOs and have this
    /// weight.
    Weighted(f64),
}

impl Stochastic {
    /// The choices that are tried one after the other, if there are stochastic promises.
    pub(super) const ALL: [Self; 5] = [
        Self::Bounded,
        Self::Weighted(1.0),
        Self::Weighted(0.3),
        Self::Weighted(0.1),
        Self::Weighted(0.0),
    ];

    /// The choices to try for these tenants. Without stochastic promises all choices are equal.
    pub(super) fn tried(tenants: &[&Candidate]) -> &'static [Self] {
        let is_stochastic = |tenant: &&Candidate| tenant.violation.is_some();
        if tenants.iter().any(is_stochastic) { &Self::ALL } else { &Self::ALL[..1] }
    }

    /// Whether the promise of a tenant is a row of the program.
    fn has_row(self, tenant: &Candidate) -> bool {
        tenant.violation.is_none() || self == Self::Bounded
    }

    /// The weight of a tenant's burst, in SLOs, beside its rate.
    fn burst_weight(self, tenant: &Candidate) -> f64 {
        match self {
            Self::Weighted(weight) if tenant.violation.is_some() => weight,
            Self::Weighted(_) | Self::Bounded => 0.0,
        }
    }
}

/// Finds the buckets of each tenant, one for each of its flows; `None` if there is no solution.
///
/// Each bucket lies on or above the r-b curve of its flow, even if the solver rounded down. The
/// caller must still check whether every promise is kept.
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
    /// The rate and the burst of each tenant's flow.
    variables: Vec<Vec<(Variable, Variable)>>,
    /// How far promises are overrun.
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

    /// The row of one queue of a way.
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

/// The buckets, raised to the r-b curves if rounding left them below.
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

/// The legs through queues, each with the ranks of the tenants that take it.
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
