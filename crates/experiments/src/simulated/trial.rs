//! `Trial`: a policy on a workload, simulated once for each seed.

use nacre_balance::{CostModel, Operations, RankGroup, Scenario, Simulation, simulate};
use nacre_load::median;
use nacre_object::{Error, Result};

use crate::policies::PolicyPlan;
use crate::workloads::{CREATE_SECONDS, Workload};

/// The seeds of the random numbers: each trial is simulated once for each seed.
pub(super) const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];
/// How many file-creating clients one rank serves without slowing them down. Fitted, see
/// `experiments/README.md`.
const CLIENTS_OF_A_RANK: f64 = 3.06;
/// How long a client waits for each other rank, relative to a create. Fitted, see
/// `experiments/README.md`.
const SCATTER_GATHER_SHARE: f64 = 0.375;
/// The CPU use that each file-creating client causes on a node. In the Mantle paper three clients
/// cause 48 %.
const CPU_PERCENT_OF_A_CLIENT: f64 = 16.0;
/// How long clients of CephFS remember where a directory is.
const LEASE_SECONDS: f64 = 30.0;
/// A trial fails if its clients need longer than this.
const LONGEST_SECONDS: f64 = 3000.0;

/// Makes the workload of a number of clients from a seed.
pub(super) type MakeWorkload<'a> = &'a dyn Fn(usize, u64) -> Workload;

/// A policy on a workload with some ranks.
pub(super) struct Trial<'a> {
    pub policy: PolicyPlan,
    pub ranks: usize,
    pub workload: MakeWorkload<'a>,
    pub clients: usize,
}

/// The costs in all figures of the Mantle paper.
pub(super) fn costs() -> CostModel {
    CostModel {
        service_seconds: CREATE_SECONDS / CLIENTS_OF_A_RANK,
        forward_seconds: CREATE_SECONDS / 10.0,
        migration_seconds: 0.25,
        session_flush_seconds: 0.01,
        scatter_gather_seconds: CREATE_SECONDS * SCATTER_GATHER_SHARE,
        ..CostModel::default()
    }
}

impl Trial<'_> {
    /// Runs the simulation once for each seed.
    ///
    /// # Errors
    /// `Invalid` if the policy fails, or if a client does not finish within [`LONGEST_SECONDS`].
    pub fn run(&self) -> Result<Vec<Simulation>> {
        SEEDS.into_iter().map(|seed| self.simulate(seed)).collect()
    }

    fn simulate(&self, seed: u64) -> Result<Simulation> {
        let Workload { units, jobs, clients_per_unit } = (self.workload)(self.clients, seed);
        let busy_cpu_percent = CLIENTS_OF_A_RANK * CPU_PERCENT_OF_A_CLIENT;
        let scenario = Scenario {
            ranks: vec![RankGroup { count: self.ranks, busy_cpu_percent, ..RankGroup::default() }],
            units,
            operations: Operations::Jobs(jobs),
            clients_per_unit,
            lease_seconds: Some(LEASE_SECONDS),
            duration_seconds: LONGEST_SECONDS,
            seed,
            costs: costs(),
            ..Scenario::default()
        };
        let simulation = simulate(&scenario, &self.policy.compile()?)?;
        let failed = simulation.failures.first().map(|failure| failure.message.clone());
        let late = || simulation.totals.finished_seconds.is_none().then(|| "not done".to_owned());
        match failed.or_else(late) {
            None => Ok(simulation),
            Some(why) => Err(Error::invalid(format!("{}, seed {seed}: {why}", self.policy.name))),
        }
    }
}

/// How long the clients took.
pub(super) fn seconds(simulation: &Simulation) -> f64 {
    simulation.totals.finished_seconds.unwrap_or(f64::INFINITY)
}

/// The median of something over the seeds.
pub(super) fn median_of(simulations: &[Simulation], of: impl Fn(&Simulation) -> f64) -> f64 {
    median(simulations.iter().map(of).collect())
}

/// The standard deviation of something over the seeds.
pub(super) fn deviation_of(simulations: &[Simulation], of: impl Fn(&Simulation) -> f64) -> f64 {
    let values: Vec<_> = simulations.iter().map(of).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}
