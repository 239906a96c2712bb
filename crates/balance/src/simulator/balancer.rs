//! `Balancer`: decides for each rank of a simulation at a tick. It builds the inputs of a decision
//! as a real node builds them.

use std::sync::Arc;

use nacre_clock::{Clock, ManualClock};

use super::PolicyFailure;
use super::cluster::{Cluster, SimulatedRank};
use super::scenario::{RankPlan, UnitPlan};
use crate::{Decision, Inputs, Policy, RankLoad, State, Unit, UnitRates};

/// What the ranks decide.
pub(super) struct Balancer<'a> {
    policy: &'a Policy,
    ranks: &'a [RankPlan<'a>],
    units: &'a [UnitPlan<'a>],
    /// The policy's state on each rank.
    states: Vec<State>,
    /// A stopped clock. Only the number of steps limits a program, so all machines decide alike.
    clock: Arc<dyn Clock>,
}

/// The moves and the failures of a tick.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// For each rank, the units that move and where they go.
    pub moves: Vec<Vec<(usize, usize)>>,
    pub failures: Vec<PolicyFailure>,
}

impl<'a> Balancer<'a> {
    pub fn new(policy: &'a Policy, ranks: &'a [RankPlan<'a>], units: &'a [UnitPlan<'a>]) -> Self {
        let states = vec![State::default(); ranks.len()];
        Self { policy, ranks, units, states, clock: Arc::new(ManualClock::default()) }
    }

    /// Makes the decision of each rank. The caller must bring the cluster up to date first, with
    /// [`Cluster::settle`].
    ///
    /// If one rank cannot measure its load, no rank decides, because in a real cluster that rank
    /// would send no heartbeat.
    pub fn tick(&mut self, tick: u64, cluster: &Cluster<'_>) -> Verdict {
        let members = members_of(cluster);
        let mut verdict = Verdict { moves: vec![vec![]; members.len()], failures: vec![] };
        let mut loads = vec![];
        for (rank, units) in members.iter().enumerate() {
            let rates: Vec<_> = units.iter().map(|unit| cluster.units[*unit].rates()).collect();
            match self.measured(&rates) {
                Ok(measured) => loads.push(measured),
                Err(message) => verdict.failures.push(PolicyFailure { tick, rank, message }),
            }
        }
        if !verdict.failures.is_empty() {
            return verdict;
        }
        let heartbeat = |(rank, loads): (usize, &Vec<f64>)| {
            heartbeat(&self.ranks[rank], &cluster.ranks[rank], loads.iter().sum())
        };
        let ranks = loads.iter().enumerate().map(heartbeat).collect();
        let mut inputs = Inputs { tick, ranks, ..Inputs::default() };
        for (rank, unit_loads) in loads.into_iter().enumerate() {
            inputs.whoami = rank;
            inputs.units = members[rank].iter().map(|unit| self.unit(*unit, cluster)).collect();
            inputs.unit_loads = unit_loads;
            inputs.state = self.states[rank].clone();
            match self.policy.decide(&inputs, &self.clock) {
                Ok(decision) => verdict.moves[rank] = self.accept(rank, decision),
                Err(error) => {
                    let message = error.to_string();
                    verdict.failures.push(PolicyFailure { tick, rank, message });
                }
            }
        }
        verdict
    }

    fn measured(&self, rates: &[UnitRates]) -> Result<Vec<f64>, String> {
        self.policy.measure(rates, &self.clock).map_err(|error| error.to_string())
    }

    fn accept(&mut self, rank: usize, decision: Decision) -> Vec<(usize, usize)> {
        self.states[rank] = decision.state;
        let number =
            |name: &str| self.units.binary_search_by(|unit| unit.name.as_str().cmp(name)).ok();
        let moves = decision.moves.iter();
        moves.filter_map(|moved| Some((number(&moved.unit)?, moved.to))).collect()
    }

    fn unit(&self, at: usize, cluster: &Cluster<'_>) -> Unit {
        let UnitPlan { name, group, .. } = &self.units[at];
        Unit {
            name: name.clone(),
            kind: group.kind.clone(),
            tenant: group.tenant.clone(),
            rates: cluster.units[at].rates(),
        }
    }
}

/// The units that each rank serves, by name.
fn members_of(cluster: &Cluster<'_>) -> Vec<Vec<usize>> {
    let mut members = vec![vec![]; cluster.ranks.len()];
    for (at, unit) in cluster.units.iter().enumerate().filter(|(_, unit)| !unit.is_held()) {
        members[unit.rank].push(at);
    }
    members
}

/// The load in a rank's heartbeat. Memory is not simulated.
fn heartbeat(plan: &RankPlan<'_>, rank: &SimulatedRank, load: f64) -> RankLoad {
    RankLoad {
        node: plan.name.clone(),
        auth: load,
        all: load,
        cpu: rank.cpu_percent,
        mem: 0.0,
        queue: rank.queue,
        requests: rank.requests_per_second,
        labels: plan.group.labels.clone(),
        capacity: plan.group.capacity,
    }
}
