//! Targets: how much load a policy wants to send to each rank.

use mlua::{Table, Value};

use super::values::{described, number, whole_number};
use crate::Inputs;

/// How a dialect numbers the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbering {
    /// The number of the first rank.
    pub first: i64,
    /// Whether every rank must have a target, its own included, as in the Ceph dialect.
    pub is_complete: bool,
}

/// Reads a table of targets.
///
/// A target for the deciding rank itself voids all targets, so nothing moves. The Ceph dialect
/// requires a target for every rank. There the deciding rank's own target voids the others only if
/// it is above 0.
///
/// # Errors
/// A message that names the invalid target.
pub(super) fn read(
    table: &Table,
    inputs: &Inputs,
    numbering: Numbering,
) -> Result<Vec<f64>, String> {
    let ranks = inputs.ranks.len();
    let mut targets = vec![0.0; ranks];
    let (mut count, mut is_void) = (0, false);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let rank = rank_of(&key, ranks, numbering)?;
        let load = load_of(&value).map_err(|what| {
            let rank = rank as i64 + numbering.first;
            format!("targets[{rank}] is {what}; a target is a finite number that is not negative")
        })?;
        count += 1;
        is_void |= rank == inputs.whoami && (load > 0.0 || !numbering.is_complete);
        targets[rank] = load;
    }
    if numbering.is_complete && count != ranks {
        return Err(format!("{count} targets for {ranks} ranks"));
    }
    if is_void {
        targets.fill(0.0);
    }
    Ok(targets)
}

fn rank_of(key: &Value, ranks: usize, numbering: Numbering) -> Result<usize, String> {
    let Some(number) = whole_number(key) else {
        let key = described(key);
        return Err(format!("{key} is no rank; the keys of targets are integers"));
    };
    let rank = number.checked_sub(numbering.first).and_then(|rank| usize::try_from(rank).ok());
    rank.filter(|rank| *rank < ranks).ok_or_else(|| {
        let last = ranks as i64 - 1 + numbering.first;
        format!("targets[{number}]: there is no such rank, there are {} to {last}", numbering.first)
    })
}

/// Reads a target load. If the value is not a valid load, returns a description of it.
fn load_of(value: &Value) -> Result<f64, String> {
    match number(value) {
        Some(load) if load.is_finite() && load >= 0.0 => Ok(load),
        _ => Err(described(value)),
    }
}
