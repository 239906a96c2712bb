//! Admission beside direct traffic: requests that no queue orders take a part of a target's time.
//!
//! Direct traffic may come before any request of a tenant. If it takes the part `d` of a target's
//! time, work at the target takes `1 / (1 - d)` times as long in the worst case. So a decision is
//! made once more for targets that are slower by this factor. Only the decision uses them: promises
//! are stored in the work of the measured profiles.

use std::collections::BTreeMap;

use nacre_object::{Result, TargetName};
use nacre_qos::{Profile, ProfileRow, RateBurst};
use nacre_registry::Change;

use crate::advice::scaled;
use crate::records::SloState;
use crate::slos::{Ask, Outcome, decide};
use crate::traffic::Traffic;

/// For some targets, how many times longer work takes beside direct traffic.
pub(crate) type Slowdowns = BTreeMap<TargetName, f64>;

/// Decides about a request for a promise, beside direct traffic.
pub(crate) fn decide_beside(
    state: &SloState,
    ask: &Ask<'_>,
    slowdowns: &Slowdowns,
) -> Result<(Outcome, Vec<Change>)> {
    let decided = decide(state, ask)?;
    if slowdowns.values().all(|factor| *factor <= 1.0) || matches!(decided.0, Outcome::Refused(_)) {
        return Ok(decided);
    }
    let slowed = slowed(state, slowdowns)?;
    let traffic = match &ask.traffic {
        Traffic::Curves(curves) => {
            let curve = |(target, curve): (&TargetName, _)| {
                Ok((target.clone(), scaled(curve, factor(slowdowns, target.as_str()))?))
            };
            Traffic::Curves(curves.iter().map(curve).collect::<Result<_>>()?)
        }
        Traffic::Rate(rate, spread) => Traffic::Rate(*rate, *spread),
        Traffic::Trace { trace, pool, block_bytes, estimator, locate } => Traffic::Trace {
            trace,
            pool: pool.clone(),
            block_bytes: *block_bytes,
            estimator: *estimator,
            locate: *locate,
        },
    };
    let asked = Ask { tenant: ask.tenant.clone(), traffic, ..*ask };
    match decide(&slowed, &asked)? {
        (Outcome::Refused(refusal), _) => Ok((Outcome::Refused(refusal), vec![])),
        (Outcome::Admitted(_), _) => Ok(decided),
    }
}

fn factor(slowdowns: &Slowdowns, target: &str) -> f64 {
    let known = slowdowns.iter().find(|(known, _)| known.as_str() == target);
    known.map_or(1.0, |(_, factor)| *factor)
}

/// The state if all work at these targets took so many times longer.
fn slowed(state: &SloState, slowdowns: &Slowdowns) -> Result<SloState> {
    let mut slowed = state.clone();
    for (target, stored) in &mut slowed.profiles {
        let factor = factor(slowdowns, target.as_str());
        let row = |row: &ProfileRow| ProfileRow {
            bytes: row.bytes,
            read_bytes_per_second: row.read_bytes_per_second / factor,
            write_bytes_per_second: row.write_bytes_per_second / factor,
        };
        stored.profile = Profile::new(stored.profile.rows().iter().map(row).collect())?;
    }
    for flow in slowed.promises.values_mut().flat_map(|promise| &mut promise.flows) {
        let factor = factor(slowdowns, &flow.target);
        flow.curve = scaled(&flow.curve, factor)?;
        flow.bucket = RateBurst {
            rate: flow.bucket.rate * factor,
            burst_seconds: flow.bucket.burst_seconds * factor,
        };
    }
    Ok(slowed)
}
