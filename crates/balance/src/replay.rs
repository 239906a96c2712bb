//! Replay: the decisions that another policy would have made at recorded ticks.
//!
//! `nacre balancer replay` calls [`replay`] with the [`TickRecord`]s of all nodes. A replayed
//! decision has no effect on later ticks: each tick uses the measurements that were recorded for
//! it. In a real cluster a different decision would have changed later measurements. So once the
//! policies differ, only the next few decisions are comparable.
//!
//! - The replayed policy measures units in its own way. It measures the load of another rank from
//!   that rank's record of the same tick. If that record is missing, the policy decides from the
//!   recorded loads, and the result says so.
//! - A policy with the same name as the recorded one gets the recorded state. Any other policy
//!   starts without a state, and keeps its own state on each node from tick to tick.

use std::collections::BTreeMap;
use std::sync::Arc;

use nacre_clock::{Clock, ManualClock};
use nacre_object::Result;
use serde::{Deserialize, Serialize};

use crate::{Inputs, Move, Policy, State, TickRecord};

/// A tick of one node, as `nacre balancer history --json` prints it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: String,
    /// What it did.
    pub record: TickRecord,
}

/// The recorded decisions, and the decisions of the replayed policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// The policy that was replayed.
    pub policy: String,
    /// The ticks of all nodes, the earliest first.
    pub ticks: Vec<ReplayedTick>,
    /// Moves that were decided.
    pub moves_then: u64,
    /// Moves that the replayed policy decides.
    pub moves_now: u64,
    /// Ticks at which the replayed policy fails.
    pub failures_now: u64,
    /// Ticks whose records have too little data for a decision.
    pub skipped: u64,
}

/// A tick of one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayedTick {
    /// The node.
    pub node: String,
    /// The tick's number.
    pub tick: u64,
    /// When the node decided: microseconds since 1970, UTC.
    pub at_micros: u64,
    /// The nodes that were ranks, in their order.
    pub ranks: Vec<String>,
    /// The program that decided then.
    pub policy: String,
    /// What it decided.
    pub then: Outcome,
    /// What the replayed policy decides.
    pub now: Outcome,
    /// Whether the replayed policy measured the loads of all ranks itself.
    pub is_remeasured: bool,
}

/// What a policy decides at a tick.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// These units move; none if the list is empty.
    Moves(Vec<Move>),
    /// Nothing moves because something failed.
    Failed(String),
    /// The record has too little data for a decision.
    Unknown(String),
}

impl Default for Outcome {
    fn default() -> Self {
        Self::Moves(vec![])
    }
}

impl Outcome {
    fn moves(&self) -> u64 {
        match self {
            Self::Moves(moves) => moves.len() as u64,
            _ => 0,
        }
    }
}

/// Replays the ticks of some nodes, in any order, under a policy.
///
/// Only the number of steps limits each run of the policy, not the time. So a replay gives the same
/// result on every machine.
pub fn replay(records: &[NodeRecord], policy: &Policy) -> Replay {
    let mut order: Vec<_> = records.iter().collect();
    order.sort_by_key(|record| record.record.at_micros);
    let mut replayer = Replayer {
        policy,
        clock: Arc::new(ManualClock::default()),
        states: BTreeMap::new(),
        loads: BTreeMap::new(),
    };
    replayer.measure_all(&order);
    let mut replay = Replay { policy: policy.name().to_owned(), ..Replay::default() };
    for record in order {
        let tick = replayer.tick(record);
        replay.moves_then += tick.then.moves();
        replay.moves_now += tick.now.moves();
        replay.failures_now += u64::from(matches!(tick.now, Outcome::Failed(_)));
        replay.skipped += u64::from(matches!(tick.now, Outcome::Unknown(_)));
        replay.ticks.push(tick);
    }
    replay
}

struct Replayer<'a> {
    policy: &'a Policy,
    clock: Arc<dyn Clock>,
    /// What the policy keeps on each node.
    states: BTreeMap<String, State>,
    /// The loads of the units of a node at a tick, as the replayed policy measures them.
    loads: BTreeMap<(u64, String), Vec<f64>>,
}

impl Replayer<'_> {
    fn measure_all(&mut self, records: &[&NodeRecord]) {
        for NodeRecord { node, record } in records {
            if missing_in(record).is_none()
                && let Ok(loads) = self.measured(&record.inputs)
            {
                self.loads.insert((record.tick, node.clone()), loads);
            }
        }
    }

    fn measured(&self, inputs: &Inputs) -> Result<Vec<f64>> {
        let rates: Vec<_> = inputs.units.iter().map(|unit| unit.rates).collect();
        self.policy.measure(&rates, &self.clock)
    }

    fn tick(&mut self, NodeRecord { node, record }: &NodeRecord) -> ReplayedTick {
        let (now, is_remeasured) = match missing_in(record) {
            Some(why) => (Outcome::Unknown(why.to_owned()), false),
            None => self.decide(node, record),
        };
        ReplayedTick {
            node: node.clone(),
            tick: record.tick,
            at_micros: record.at_micros,
            ranks: record.inputs.ranks.iter().map(|rank| rank.node.clone()).collect(),
            policy: record.policy.clone(),
            then: recorded(record),
            now,
            is_remeasured,
        }
    }

    fn decide(&mut self, node: &str, record: &TickRecord) -> (Outcome, bool) {
        let mut inputs = record.inputs.clone();
        // A policy that cannot measure sends no heartbeat, and decides nothing.
        if let Err(error) = self.measured(&inputs) {
            return (Outcome::Failed(error.to_string()), false);
        }
        let is_remeasured = self.remeasure(record.tick, node, &mut inputs);
        let is_its_own = base_name(self.policy.name()) == base_name(&record.policy);
        if !is_its_own {
            inputs.state = self.states.get(node).cloned().unwrap_or_default();
        }
        let outcome = match self.policy.decide(&inputs, &self.clock) {
            Ok(decision) => {
                self.states.insert(node.to_owned(), decision.state);
                Outcome::Moves(decision.moves)
            }
            Err(error) => Outcome::Failed(error.to_string()),
        };
        (outcome, is_remeasured)
    }

    /// Replaces the recorded loads by the loads that the replayed policy measures. If a rank's
    /// record is missing, it changes nothing and returns false, because loads from two policies
    /// cannot be compared.
    fn remeasure(&self, tick: u64, node: &str, inputs: &mut Inputs) -> bool {
        let of = |node: &str| self.loads.get(&(tick, node.to_owned()));
        let sums = inputs.ranks.iter().map(|rank| Some(of(&rank.node)?.iter().sum::<f64>()));
        let Some(sums) = sums.collect::<Option<Vec<_>>>() else { return false };
        let Some(own) = of(node) else { return false };
        inputs.unit_loads.clone_from(own);
        for (rank, sum) in inputs.ranks.iter_mut().zip(sums) {
            (rank.auth, rank.all) = (sum, sum);
        }
        true
    }
}

/// Programs are named with their kind or without: `balancer/never`, `never`.
fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn recorded(record: &TickRecord) -> Outcome {
    match (&record.failure, &record.decision) {
        (Some(failure), _) => Outcome::Failed(failure.clone()),
        (None, Some(decision)) => Outcome::Moves(decision.moves.clone()),
        (None, None) => Outcome::Unknown("the record has no decision".to_owned()),
    }
}

/// Says which data for a decision the record lacks.
fn missing_in(record: &TickRecord) -> Option<&'static str> {
    let inputs = &record.inputs;
    let own = inputs.ranks.get(inputs.whoami);
    match own {
        None => Some("no loads were recorded"),
        Some(own) if inputs.units.is_empty() && own.auth > 0.0 => {
            Some("the record was too long to keep its units")
        }
        Some(_) => None,
    }
}
