//! Trials: what a policy would decide at some made-up ticks. `nacre balancer check` prints them, so
//! that a person sees a policy's decisions before storing it.

use std::sync::Arc;

use nacre_clock::{Clock, ManualClock};
use nacre_object::Result;
use serde::{Deserialize, Serialize};

use crate::{Inputs, Move, Policy, RankLoad, Unit, UnitRates};

/// Numbers of ranks that are tried.
const RANK_COUNTS: [usize; 3] = [2, 3, 5];
/// Units of a busy rank.
const UNITS: usize = 4;

/// How the load of a made-up tick is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialLoad {
    /// The first rank has all load.
    AllOnTheFirst,
    /// All ranks have the same load.
    Even,
    /// The last rank has no load, and all others have the same load.
    LastIdle,
}

/// A made-up tick and what all its ranks decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How the load is spread.
    pub load: TrialLoad,
    /// The load of each rank before the moves, as the policy measures it.
    pub before: Vec<f64>,
    /// The load of each rank after the moves.
    pub after: Vec<f64>,
    /// For each rank, the units that move from it.
    pub moves: Vec<Vec<Move>>,
    /// The ranks on which the policy fails, and why.
    pub failures: Vec<(usize, String)>,
}

impl TrialLoad {
    const ALL: [TrialLoad; 3] = [Self::AllOnTheFirst, Self::Even, Self::LastIdle];

    fn is_busy(self, rank: usize, ranks: usize) -> bool {
        match self {
            Self::AllOnTheFirst => rank == 0,
            Self::Even => true,
            Self::LastIdle => rank + 1 < ranks,
        }
    }
}

/// Tries a policy on made-up ticks of 2, 3 and 5 ranks. The policy has no state from an earlier
/// tick.
///
/// # Errors
/// Those of [`Policy::measure`].
pub fn try_out(policy: &Policy) -> Result<Vec<Trial>> {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let trials = TrialLoad::ALL.into_iter().flat_map(|load| {
        let clock = &clock;
        RANK_COUNTS.into_iter().map(move |ranks| trial(policy, load, ranks, clock))
    });
    trials.collect()
}

fn trial(policy: &Policy, load: TrialLoad, ranks: usize, clock: &Arc<dyn Clock>) -> Result<Trial> {
    let units: Vec<_> = (0..ranks).map(|rank| units_of(load, rank, ranks)).collect();
    let measure = |units: &Vec<Unit>| {
        let rates: Vec<_> = units.iter().map(|unit| unit.rates).collect();
        policy.measure(&rates, clock)
    };
    let loads = units.iter().map(measure).collect::<Result<Vec<_>>>()?;
    // The sum of no numbers would be -0, which would appear in the output.
    let before: Vec<f64> =
        loads.iter().map(|loads| loads.iter().fold(0.0, |sum, load| sum + load)).collect();
    let heartbeats = before.iter().enumerate();
    let mut inputs = Inputs {
        ranks: heartbeats
            .map(|(rank, sum)| heartbeat(rank, *sum, load.is_busy(rank, ranks)))
            .collect(),
        ..Inputs::default()
    };
    let mut trial = Trial { load, after: before.clone(), before, moves: vec![], failures: vec![] };
    for (rank, (units, unit_loads)) in units.into_iter().zip(loads).enumerate() {
        (inputs.whoami, inputs.units, inputs.unit_loads) = (rank, units, unit_loads);
        let moves = match policy.decide(&inputs, clock) {
            Ok(decision) => decision.moves,
            Err(error) => {
                trial.failures.push((rank, error.to_string()));
                vec![]
            }
        };
        for moved in &moves {
            trial.after[rank] -= moved.load;
            trial.after[moved.to] += moved.load;
        }
        trial.moves.push(moves);
    }
    Ok(trial)
}

fn units_of(load: TrialLoad, rank: usize, ranks: usize) -> Vec<Unit> {
    if !load.is_busy(rank, ranks) {
        return vec![];
    }
    let unit = |at: usize| {
        let rate = 400.0 * (at + 1) as f64;
        Unit {
            name: format!("unit{rank}.{at}"),
            kind: "sequencer".to_owned(),
            tenant: "default".to_owned(),
            rates: UnitRates { ird: rate, iwr: rate, ..UnitRates::default() },
        }
    };
    (0..UNITS).map(unit).collect()
}

fn heartbeat(rank: usize, load: f64, is_busy: bool) -> RankLoad {
    let node = format!("rank{rank}");
    let idle = RankLoad { node, auth: load, all: load, ..RankLoad::default() };
    match is_busy {
        true => RankLoad { cpu: 95.0, mem: 40.0, queue: 5.0, requests: 1000.0, ..idle },
        false => idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_sends_all_load_to_the_next_rank_does_so_in_each_trial() {
        let source = "metaload = 'IWR'\nwhen = 'if whoami == 1 then'\nhowmuch = {'big'}\n\
                      where = 'targets[whoami + 1] = authmetaload'";
        let trials = try_out(&Policy::compile("test", 0, source).unwrap()).unwrap();
        let counts: Vec<_> = trials.iter().map(|trial| trial.before.len()).collect();
        assert_eq!(counts, [2, 3, 5, 2, 3, 5, 2, 3, 5]);
        for trial in &trials {
            assert_eq!((trial.moves[0].len(), trial.after[0]), (UNITS, 0.0));
            assert_eq!(trial.after.iter().sum::<f64>(), trial.before.iter().sum::<f64>());
            assert_eq!(trial.failures, []);
        }
    }

    #[test]
    fn a_trial_reports_the_rank_on_which_a_policy_fails() {
        let source = "when = 'if whoami == 2 then error() end if false then'";
        let trials = try_out(&Policy::compile("test", 0, source).unwrap()).unwrap();
        assert!(trials.iter().all(|trial| trial.failures.len() == 1 && trial.failures[0].0 == 1));
    }
}
