//! `Inputs`: everything that a decision depends on, besides the policy.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{RankLoad, State, Unit};
use crate::limits::{MAX_RANKS, MAX_UNITS};

/// Everything that a decision depends on, besides the policy. The same inputs give the same
/// decision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inputs {
    /// The number of the tick. It also seeds `math.random`.
    pub tick: u64,
    /// The rank that decides, an index of `ranks`.
    pub whoami: usize,
    /// The heartbeats of all ranks, of the same tick.
    pub ranks: Vec<RankLoad>,
    /// The units of the rank that decides.
    pub units: Vec<Unit>,
    /// The load of each unit, see [`Policy::measure`](crate::Policy::measure).
    pub unit_loads: Vec<f64>,
    /// What the policy kept of its last decision.
    pub state: State,
}

impl Inputs {
    /// Fails unless the fields fit each other and stay within their bounds.
    pub(crate) fn check(&self) -> Result<()> {
        let (ranks, units) = (self.ranks.len(), self.units.len());
        if ranks > MAX_RANKS {
            return Err(Error::exhausted(format!(
                "the tick has {ranks} ranks; at most {MAX_RANKS} are allowed"
            )));
        }
        check_unit_count(units)?;
        if self.whoami >= ranks {
            let text =
                format!("rank {} is to decide, but there are only {ranks} ranks", self.whoami);
            return Err(Error::invalid(text));
        }
        if self.unit_loads.len() != units {
            let text = format!("there are {} loads for {units} units", self.unit_loads.len());
            return Err(Error::invalid(text));
        }
        let is_load = |load: &f64| load.is_finite() && *load >= 0.0;
        if let Some(at) = self.unit_loads.iter().position(|load| !is_load(load)) {
            let (name, load) = (&self.units[at].name, self.unit_loads[at]);
            return Err(Error::invalid(format!(
                "the load of unit {name} is {load}; it must be a number of at least 0"
            )));
        }
        let is_odd = |rank: &RankLoad| rank.numbers().iter().any(|number| !number.is_finite());
        match self.ranks.iter().position(is_odd) {
            Some(at) => Err(Error::invalid(format!("a number of rank {at} is not finite"))),
            None => Ok(()),
        }
    }
}

/// Fails if a rank has more units than a policy can look at.
pub(crate) fn check_unit_count(units: usize) -> Result<()> {
    match units > MAX_UNITS {
        true => Err(Error::exhausted(format!(
            "the rank has {units} units; at most {MAX_UNITS} are allowed"
        ))),
        false => Ok(()),
    }
}
