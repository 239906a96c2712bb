//! `Decision`: what a policy decided, and why.

use serde::{Deserialize, Serialize};

use super::{Mode, State};

/// What a policy decided at one tick, and why.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decision {
    /// The load of each rank as the policy sees it (`mdsload`).
    pub loads: Vec<f64>,
    /// Their sum.
    pub total: f64,
    /// Whether the policy wants to move load (`when`).
    pub is_due: bool,
    /// How much load to send to each rank (`where`).
    pub targets: Vec<f64>,
    /// The units that move. No unit moves twice, and none to the rank that decides.
    pub moves: Vec<Move>,
    /// How clients reach the units that move.
    pub mode: Mode,
    /// For each rank to which units move, the selector whose choice was used.
    pub selectors: Vec<(usize, String)>,
    /// What the policy keeps for its next decision.
    pub state: State,
    /// What the policy logged.
    pub log: Vec<LogLine>,
}

/// A unit that moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The name of the unit.
    pub unit: String,
    /// The rank to which it moves, from 0.
    pub to: usize,
    /// Its load.
    pub load: f64,
}

/// A line that a policy logged with `BAL_LOG`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// The level: the higher, the less important.
    pub level: i64,
    /// The line.
    pub text: String,
}

impl Decision {
    /// The load of all units that move.
    pub fn moved_load(&self) -> f64 {
        self.moves.iter().map(|moved| moved.load).sum()
    }
}
