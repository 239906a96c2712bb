//! `nacre balancer check`: checks a policy, and shows its decisions at some invented ticks.

use std::path::Path;
use std::sync::Arc;

use nacre_balance::{Trial, TrialLoad, try_out};
use nacre_clock::{Clock, SystemClock};
use nacre_object::Result;
use serde_json::json;

use super::policy_file::PolicyFile;
use crate::out::{Out, table};

/// Compiles a policy, rehearses it, and shows what it decides.
pub(super) fn check(path: &Path, out: Out) -> Result<()> {
    let file = PolicyFile::read(path)?;
    let policy = file.compile()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    policy.rehearse(&clock).map_err(|error| file.refused(error))?;
    file.warn(&policy.suspicions());
    let trials = try_out(&policy).map_err(|error| file.refused(error))?;
    let (mode, dialect) = (policy.mode(), policy.dialect().as_str());
    let value = json!({ "ok": true, "policy": policy.name(), "mode": mode,
        "dialect": dialect, "trials": trials });
    out.show(&value, || {
        let rows: Vec<_> = trials.iter().map(row).collect();
        let header = ["load", "ranks", "before", "after", "moves"];
        let name = policy.name();
        format!("{name}: no errors ({dialect} dialect, {mode} mode)\n{}", table(&header, &rows))
    })
}

fn row(trial: &Trial) -> Vec<String> {
    let load = match trial.load {
        TrialLoad::AllOnTheFirst => "all on rank 0",
        TrialLoad::Even => "even",
        TrialLoad::LastIdle => "last rank idle",
    };
    vec![
        load.to_owned(),
        trial.before.len().to_string(),
        numbers(&trial.before),
        numbers(&trial.after),
        decided(trial),
    ]
}

fn numbers(loads: &[f64]) -> String {
    loads.iter().map(|load| format!("{load:.0}")).collect::<Vec<_>>().join(" ")
}

fn decided(trial: &Trial) -> String {
    let failures = trial.failures.iter().map(|(rank, why)| format!("rank {rank} fails: {why}"));
    let moves = trial.moves.iter().enumerate().flat_map(|(from, moves)| {
        moves.iter().map(move |moved| format!("{} from {from} to {}", moved.unit, moved.to))
    });
    let all: Vec<_> = failures.chain(moves).collect();
    match all.is_empty() {
        true => "all stay".to_owned(),
        false => all.join(", "),
    }
}
