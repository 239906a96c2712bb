//! `Simulation`: the result of simulating a scenario under a policy.

use serde::{Deserialize, Serialize};

use super::CostModel;
use crate::Mode;

/// How many failures of the policy are kept in full. Further failures are only counted.
pub const MAX_KEPT_FAILURES: usize = 1000;

/// The result of simulating a scenario under a policy. docs/balancing-simulator.md says which
/// results are near real runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Simulation {
    /// The program.
    pub policy: String,
    /// How clients reach units that have moved.
    pub mode: Mode,
    /// The ranks' nodes.
    pub ranks: Vec<String>,
    /// How many units there are.
    pub units: usize,
    /// The seed.
    pub seed: u64,
    /// The costs that the simulation used.
    pub costs: CostModel,
    /// Tick by tick.
    pub ticks: Vec<SimulatedTick>,
    /// All ticks together.
    pub totals: SimulationTotals,
    /// When the policy failed, the first [`MAX_KEPT_FAILURES`] times.
    pub failures: Vec<PolicyFailure>,
}

/// A tick: what the ranks decided at its beginning, and what happened until its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimulatedTick {
    /// The number of the tick, from 0. At tick 0 nothing is decided, because nothing was measured
    /// before.
    pub tick: u64,
    /// When it began.
    pub at_seconds: f64,
    /// The load of each rank: operations that it served, a second.
    pub load: Vec<f64>,
    /// Operations that wait at each rank at the end of the tick.
    pub queue: Vec<f64>,
    /// The number of units on each rank at the end of the tick. A unit that is moving counts at its
    /// old rank.
    pub units: Vec<usize>,
    /// The highest load of a rank in comparison with the mean. 1 is even.
    pub imbalance: f64,
    /// Units that began to move.
    pub moves: u64,
    /// Moves that were decided but did not begin before the tick was over.
    pub late_moves: u64,
    /// Operations that a rank forwarded.
    pub forwards: f64,
    /// Operations that were served, a second, by all ranks.
    pub throughput: f64,
}

/// All ticks together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SimulationTotals {
    /// How long the simulation ran.
    pub seconds: f64,
    /// Operations that clients asked for.
    pub arrived: f64,
    /// Operations that were served.
    pub served: f64,
    /// Operations that wait at the end.
    pub queued: f64,
    /// Units that moved.
    pub moves: u64,
    /// Moves that did not begin before their tick was over.
    pub late_moves: u64,
    /// Operations that a rank forwarded.
    pub forwards: f64,
    /// Moves that brought a unit back to a rank that it had left within
    /// [`THRASH_TICKS`](super::THRASH_TICKS) ticks.
    pub thrash: u64,
    /// The mean of the ticks' imbalance.
    pub mean_imbalance: f64,
    /// The imbalance of the last tick.
    pub final_imbalance: f64,
    /// How many times the policy failed.
    pub failures: u64,
    /// When the last client finished its job. `None` if a client did not finish, or if there are no
    /// jobs.
    pub finished_seconds: Option<f64>,
    /// Pairs of a client and a rank that it has asked, of clients that do jobs.
    pub sessions: u64,
    /// Sessions that moves have flushed: for each move those of the unit's clients.
    pub session_flushes: f64,
}

/// A failure of the policy. The rank moved nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyFailure {
    /// The tick.
    pub tick: u64,
    /// The rank on which it failed, from 0.
    pub rank: usize,
    /// What went wrong, with the line where known.
    pub message: String,
}
