//! The choice of the units that make up the targets.

use std::cell::OnceCell;
use std::collections::HashSet;

use mlua::{Function, Table, Value};
use nacre_object::Result;

use super::environment::unit_list;
use super::hook_name::HookName;
use super::hooks::PolicySelector;

use super::running::Running;
use super::values::{type_of, whole_number};
use crate::selectors::nearest;
use crate::{Decision, Inputs, Move, Selector};

/// What units are chosen by.
pub(super) struct Choice<'a> {
    pub running: &'a Running<'a>,
    pub inputs: &'a Inputs,
    pub selectors: &'a [PolicySelector],
    /// What says whether a unit may move to a rank.
    pub placement: Option<Function>,
    /// The units as the policy sees them, once it sees one.
    pub units: OnceCell<Table>,
}

/// Units that a selector chose, as indexes of the inputs.
type Selection = Vec<usize>;

impl Choice<'_> {
    /// Adds the moves that make up the targets of a decision. Ranks choose in their order, so a unit moves once at most.
    pub fn choose(&self, decision: &mut Decision) -> Result<()> {
        let mut left: Vec<usize> = (0..self.inputs.units.len()).collect();
        for rank in 0..decision.targets.len() {
            let target = decision.targets[rank];
            if target <= 0.0 || rank == self.inputs.whoami || left.is_empty() {
                continue;
            }
            let candidates = self.candidates(&left, rank)?;
            let Some((selector, chosen)) = self.best(&candidates, target, rank)? else { continue };
            decision.selectors.push((rank, selector.to_owned()));
            decision.moves.extend(chosen.iter().map(|at| Move {
                unit: self.inputs.units[*at].name.clone(),
                to: rank,
                load: self.inputs.unit_loads[*at],
            }));
            let chosen: HashSet<_> = chosen.into_iter().collect();
            left.retain(|at| !chosen.contains(at));
        }
        Ok(())
    }

    /// The units that may move to a rank.
    fn candidates(&self, left: &[usize], rank: usize) -> Result<Selection> {
        let Some(placement) = &self.placement else { return Ok(left.to_vec()) };
        let mut allowed = vec![];
        for at in left {
            match self.running.call(placement, (self.unit(*at)?, rank + 1))? {
                Value::Boolean(false) => {}
                Value::Boolean(true) | Value::Nil => allowed.push(*at),
                other => {
                    let what = type_of(&other);
                    let text = format!("`placement` returned a {what}; it returns true or false");
                    return Err(self.running.fault(HookName::Placement, text));
                }
            }
        }
        Ok(allowed)
    }

    /// Of what the selectors choose, what is nearest to the target, and the selector's name.
    fn best(
        &self,
        candidates: &[usize],
        target: f64,
        rank: usize,
    ) -> Result<Option<(&str, Selection)>> {
        let select = |selector: &PolicySelector| match selector {
            PolicySelector::BuiltIn(selector, _) => {
                Ok(self.built_in(*selector, candidates, target))
            }
            PolicySelector::Function(function, name) => {
                self.programmed(function, name, candidates, target, rank)
            }
        };
        let selections = self.selectors.iter().map(select).collect::<Result<Vec<_>>>()?;
        let sum = |chosen: &Selection| chosen.iter().map(|at| self.inputs.unit_loads[*at]).sum();
        let sums: Vec<f64> = selections.iter().map(sum).collect();
        let won = nearest(&sums, target);
        Ok(won.map(|at| (self.selectors[at].name(), selections[at].clone())))
    }

    /// Built-in selectors leave units without load where they are: to move them changes nothing.
    fn built_in(&self, selector: Selector, candidates: &[usize], target: f64) -> Selection {
        let is_busy = |at: &usize| self.inputs.unit_loads[*at] > 0.0;
        let busy: Vec<_> = candidates.iter().copied().filter(is_busy).collect();
        let loads: Vec<_> = busy.iter().map(|at| self.inputs.unit_loads[*at]).collect();
        selector.choose(&loads, target).into_iter().map(|at| busy[at]).collect()
    }

    fn programmed(
        &self,
        function: &Function,
        name: &str,
        candidates: &[usize],
        target: f64,
        rank: usize,
    ) -> Result<Selection> {
        let running = self.running;
        let units = running.explained(running.lua().create_table())?;
        for at in candidates {
            running.explained(units.raw_push(self.unit(*at)?))?;
        }
        let returned = running.call(function, (units, target, rank + 1))?;
        let refuse = |what: String| {
            let text = format!("the selector {name} {what}; it returns a list of indexes of units");
            running.fault(HookName::Howmuch, text)
        };
        let Value::Table(list) = returned else {
            return Err(refuse(format!("returned a {}", type_of(&returned))));
        };
        let mut chosen = vec![];
        let mut seen = HashSet::new();
        // One more than there are units is enough to be told so.
        for at in 1..=list.raw_len().min(candidates.len() + 1) {
            let index = running.explained(list.raw_get::<Value>(at))?;
            let unit = whole_number(&index)
                .and_then(|index| usize::try_from(index).ok()?.checked_sub(1))
                .and_then(|index| candidates.get(index));
            match unit {
                Some(unit) if seen.insert(*unit) => chosen.push(*unit),
                Some(_) => return Err(refuse("returned a unit twice".to_owned())),
                None => {
                    let text = format!("returned an entry {at} that is no unit");
                    return Err(refuse(text));
                }
            }
        }
        Ok(chosen)
    }

    /// A unit as the policy sees it. All are made when the first one is asked for.
    fn unit(&self, at: usize) -> Result<Table> {
        let list = match self.units.get() {
            Some(list) => list,
            None => {
                let list = unit_list(self.running, self.inputs)?;
                self.units.get_or_init(|| list)
            }
        };
        self.running.explained(list.raw_get(at + 1))
    }
}
