//! `Scenario`: everything that a simulation depends on, besides the policy.

use std::collections::BTreeMap;

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use super::operations::require;
use super::{CostModel, Operations};

/// The most ranks of a simulation: about as many as a policy may have.
const MAX_SIMULATED_RANKS: usize = 1000;
/// The most units of a simulation. A unit takes some hundred bytes.
const MAX_SIMULATED_UNITS: usize = 1_000_000;
/// The most ticks of a simulation. Each is kept, with two numbers for each rank.
const MAX_SIMULATED_TICKS: f64 = 5000.0;
/// The load of the usual scenario, as a share of the load that all ranks can serve. The ranks are
/// busy, but can serve it.
const NEEDED: f64 = 0.9;
/// Steps of a tick.
const MAX_STEPS: f64 = 10_000.0;

const _: () = assert!(MAX_SIMULATED_RANKS <= crate::limits::MAX_RANKS);

/// All inputs of a simulation, except the policy. A field that is missing in JSON has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// The ranks, group by group.
    pub ranks: Vec<RankGroup>,
    /// The units, group by group.
    pub units: Vec<UnitGroup>,
    /// What clients ask for.
    pub operations: Operations,
    /// How many clients ask for each unit.
    pub clients_per_unit: f64,
    /// How long a client that does a job remembers the rank on which it last found a unit. `None`
    /// means for ever.
    pub lease_seconds: Option<f64>,
    /// How long the simulation runs. It is rounded up to whole ticks.
    pub duration_seconds: f64,
    /// From one decision to the next.
    pub tick_seconds: f64,
    /// The length of a step. It is rounded, so that a tick has a whole number of steps.
    pub step_seconds: f64,
    /// What chance depends on.
    pub seed: u64,
    /// How long things take.
    pub costs: CostModel,
}

/// Ranks that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RankGroup {
    /// The node's name. With a count over 1, a dot and a number from 0 follow.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Seconds of work that each does in a second.
    pub capacity: f64,
    /// The CPU use of the rank's node, in percent, while the rank is always busy. It is below 100
    /// if a rank cannot use all processors of its node.
    pub busy_cpu_percent: f64,
    /// What the operator says of each.
    pub labels: BTreeMap<String, String>,
}

/// Units that are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UnitGroup {
    /// The unit's name. With a count over 1, a dot and a number from 0 follow.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Their file type.
    pub kind: String,
    /// Whose they are.
    pub tenant: String,
    /// The rank on which all units of the group begin, from 0. With `None` the units are
    /// distributed over the ranks in turn.
    pub first_rank: Option<usize>,
    /// The directory of which they are fragments: see [`CostModel::scatter_gather_seconds`].
    pub directory: Option<String>,
}

impl Default for Scenario {
    /// Three busy sequencers, all on the first of three ranks, which is too slow for them.
    fn default() -> Self {
        Self::crowded_on_the_first(3, 3, CostModel::default())
    }
}

impl Scenario {
    /// A scenario with all sequencers on the first rank. Their load is nine tenths of the load that
    /// all ranks together can serve.
    pub fn crowded_on_the_first(ranks: usize, units: usize, costs: CostModel) -> Self {
        let per_unit_per_second =
            NEEDED * ranks as f64 / costs.service_seconds / units.max(1) as f64;
        let operations = super::Arrivals { per_unit_per_second, ..Default::default() };
        Self {
            ranks: vec![RankGroup { count: ranks, ..RankGroup::default() }],
            units: vec![UnitGroup { count: units, first_rank: Some(0), ..UnitGroup::default() }],
            operations: Operations::Arrivals(operations),
            clients_per_unit: 4.0,
            lease_seconds: None,
            duration_seconds: 300.0,
            tick_seconds: crate::DEFAULT_TICK.as_secs_f64(),
            step_seconds: 0.1,
            seed: 1,
            costs,
        }
    }
}

impl Default for RankGroup {
    fn default() -> Self {
        Self {
            name: "rank".into(),
            count: 1,
            capacity: 1.0,
            busy_cpu_percent: 100.0,
            labels: BTreeMap::new(),
        }
    }
}

impl Default for UnitGroup {
    fn default() -> Self {
        Self {
            name: "unit".into(),
            count: 1,
            kind: "sequencer".into(),
            tenant: "default".into(),
            first_rank: None,
            directory: None,
        }
    }
}

/// A rank of a scenario.
#[derive(Debug)]
pub(super) struct RankPlan<'a> {
    pub name: String,
    pub group: &'a RankGroup,
}

/// A unit of a scenario.
#[derive(Debug)]
pub(super) struct UnitPlan<'a> {
    pub name: String,
    pub group: &'a UnitGroup,
    pub first_rank: usize,
}

impl Scenario {
    /// # Errors
    /// `Invalid` for a number that makes no sense; `Exhausted` past a bound.
    pub(super) fn check(&self) -> Result<()> {
        let ranks = total(self.ranks.iter().map(|group| group.count));
        let units = total(self.units.iter().map(|group| group.count));
        within("ranks", ranks, MAX_SIMULATED_RANKS)?;
        within("units", units, MAX_SIMULATED_UNITS)?;
        if ranks == 0 {
            return Err(Error::invalid("the scenario has no ranks; it needs at least one"));
        }
        for group in &self.ranks {
            require(&format!("the capacity of {}", group.name), group.capacity, 1e-6, 1e6)?;
            require("busy_cpu_percent", group.busy_cpu_percent, 0.0, 100.0)?;
        }
        let is_missing = |group: &&UnitGroup| group.first_rank.is_some_and(|rank| rank >= ranks);
        if let Some(group) = self.units.iter().find(is_missing) {
            let rank = group.first_rank.unwrap_or_default();
            let text =
                format!("{} begins on rank {rank}; the last rank is {}", group.name, ranks - 1);
            return Err(Error::invalid(text));
        }
        require("clients_per_unit", self.clients_per_unit, 0.0, 1e9)?;
        require("lease_seconds", self.lease_seconds.unwrap_or_default(), 0.0, 1e9)?;
        require("tick_seconds", self.tick_seconds, 1e-3, 86_400.0)?;
        require("step_seconds", self.step_seconds, self.tick_seconds / MAX_STEPS, 86_400.0)?;
        let longest = MAX_SIMULATED_TICKS * self.tick_seconds;
        require("duration_seconds", self.duration_seconds, 1e-3, longest)?;
        self.operations.check()?;
        self.costs.check()
    }

    /// The ticks of the simulation.
    pub(super) fn ticks(&self) -> u64 {
        // So that 30 s are 100 ticks of 0.3 s, and not 101.
        ((self.duration_seconds / self.tick_seconds - 1e-9).ceil() as u64).max(1)
    }

    /// The steps of a tick.
    pub(super) fn steps(&self) -> u64 {
        ((self.tick_seconds / self.step_seconds).round() as u64).max(1)
    }

    /// The ranks, in their order.
    ///
    /// # Errors
    /// `Invalid` if two have the same name.
    pub(super) fn rank_plans(&self) -> Result<Vec<RankPlan<'_>>> {
        let plans = self.ranks.iter().flat_map(|group| {
            let plan = move |at| RankPlan { name: member(&group.name, group.count, at), group };
            (0..group.count).map(plan)
        });
        let plans: Vec<_> = plans.collect();
        let mut names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
        names.sort_unstable();
        check_distinct("ranks", &names)?;
        Ok(plans)
    }

    /// The units by name, in the order in which a node lists them.
    ///
    /// # Errors
    /// `Invalid` if two units have the same name.
    pub(super) fn unit_plans<'a>(&'a self, ranks: usize) -> Result<Vec<UnitPlan<'a>>> {
        let members =
            self.units.iter().flat_map(|group| (0..group.count).map(move |at| (group, at)));
        let plan = |(number, (group, at)): (usize, (&'a UnitGroup, usize))| UnitPlan {
            name: member(&group.name, group.count, at),
            group,
            first_rank: group.first_rank.unwrap_or(number % ranks),
        };
        let mut plans: Vec<_> = members.enumerate().map(plan).collect();
        plans.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
        check_distinct("units", &names)?;
        Ok(plans)
    }
}

fn member(name: &str, count: usize, at: usize) -> String {
    match count {
        1 => name.to_owned(),
        _ => format!("{name}.{at}"),
    }
}

fn total(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(0, usize::saturating_add)
}

fn within(what: &str, count: usize, most: usize) -> Result<()> {
    match count <= most {
        true => Ok(()),
        false => Err(Error::exhausted(format!(
            "the scenario has {count} {what}; at most {most} are allowed"
        ))),
    }
}

fn check_distinct(what: &str, sorted: &[&str]) -> Result<()> {
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::invalid(format!("two {what} are named {}", pair[0]))),
        None => Ok(()),
    }
}
