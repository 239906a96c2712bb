//! Chooses the units whose load makes up the targets.

use std::cell::OnceCell;
use std::collections::HashSet;

use mlua::{Function, Table, Value};
use nacre_object::Result;
use nacre_script::type_of;

use super::environment::unit_list;
use super::hook_name::HookName;
use super::hooks::PolicySelector;

use super::running::Running;
use super::values::whole_number;
use crate::selectors::{Orders, nearest};
use crate::{Decision, Inputs, Move};

/// What units are chosen by.
pub(super) struct Choice<'a> {
    pub running: &'a Running<'a>,
    pub inputs: &'a Inputs,
    pub selectors: &'a [PolicySelector],
    /// The policy's function that says whether a unit may move to a rank.
    pub placement: Option<Function>,
    /// The units as the policy sees them. They are created when the policy first needs one.
    pub units: OnceCell<Table>,
}

/// Units that a selector chose, as indexes of the inputs.
type Selection = Vec<usize>;

/// The units that may move to one rank.
struct Candidates<'a> {
    rank: usize,
    is_left: &'a [bool],
    /// What `placement` says; `None` without one.
    is_allowed: Option<Vec<bool>>,
}

impl Candidates<'_> {
    fn has(&self, at: usize) -> bool {
        self.is_left[at] && self.is_allowed.as_ref().is_none_or(|is_allowed| is_allowed[at])
    }
}

impl Choice<'_> {
    /// Chooses the units to move for each target of a decision, in the order of the ranks. A unit
    /// that one target has taken is not available to later targets, so it moves at most once.
    pub fn choose(&self, decision: &mut Decision) -> Result<()> {
        let orders = Orders::new(&self.inputs.unit_loads);
        let mut is_left = vec![true; self.inputs.units.len()];
        for rank in 0..decision.targets.len() {
            let target = decision.targets[rank];
            if target <= 0.0 || rank == self.inputs.whoami || !is_left.contains(&true) {
                continue;
            }
            orders.drop_moved(&is_left);
            let candidates = self.candidates(&is_left, rank)?;
            let Some((selector, chosen)) = self.best(&orders, &candidates, target)? else {
                continue;
            };
            decision.selectors.push((rank, selector.to_owned()));
            decision.moves.extend(chosen.iter().map(|at| Move {
                unit: self.inputs.units[*at].name.clone(),
                to: rank,
                load: self.inputs.unit_loads[*at],
            }));
            chosen.into_iter().for_each(|at| is_left[at] = false);
        }
        Ok(())
    }

    /// The units that may move to a rank.
    fn candidates<'a>(&self, is_left: &'a [bool], rank: usize) -> Result<Candidates<'a>> {
        let may_move = |at: usize, placement: &Function| match self
            .running
            .call(placement, (self.unit(at)?, rank + 1))?
        {
            Value::Boolean(may_move) => Ok(may_move),
            Value::Nil => Ok(true),
            other => {
                let what = type_of(&other);
                let text = format!("`placement` returned a {what}; it must return true or false");
                Err(self.running.fault(HookName::Placement, text))
            }
        };
        let all = |placement: &Function| -> Result<Vec<bool>> {
            let units = is_left.iter().enumerate();
            units.map(|(at, is_left)| Ok(*is_left && may_move(at, placement)?)).collect()
        };
        let is_allowed = self.placement.as_ref().map(all).transpose()?;
        Ok(Candidates { rank, is_left, is_allowed })
    }

    /// The selection that is nearest to the target, and the name of its selector.
    fn best(
        &self,
        orders: &Orders<'_>,
        candidates: &Candidates<'_>,
        target: f64,
    ) -> Result<Option<(&str, Selection)>> {
        // Built-in selectors never choose a unit without load: moving it would change nothing.
        let is_busy = |at: usize| self.inputs.unit_loads[at] > 0.0 && candidates.has(at);
        let select = |selector: &PolicySelector| match selector {
            PolicySelector::BuiltIn(selector, _) => Ok(orders.choose(*selector, is_busy, target)),
            PolicySelector::Function(function, name) => {
                self.programmed(function, name, candidates, target)
            }
        };
        let mut selections = self.selectors.iter().map(select).collect::<Result<Vec<_>>>()?;
        let sum = |chosen: &Selection| chosen.iter().map(|at| self.inputs.unit_loads[*at]).sum();
        let sums: Vec<f64> = selections.iter().map(sum).collect();
        let won = nearest(&sums, target);
        Ok(won.map(|at| (self.selectors[at].name(), selections.swap_remove(at))))
    }

    fn programmed(
        &self,
        function: &Function,
        name: &str,
        candidates: &Candidates<'_>,
        target: f64,
    ) -> Result<Selection> {
        let running = self.running;
        let units = running.explained(running.lua().create_table())?;
        let rank = candidates.rank;
        let all = 0..self.inputs.units.len();
        let candidates: Vec<_> = all.filter(|at| candidates.has(*at)).collect();
        for at in &candidates {
            running.explained(units.raw_push(self.unit(*at)?))?;
        }
        let returned = running.call(function, (units, target, rank + 1))?;
        let refuse = |what: String| {
            let text =
                format!("the selector {name} {what}; it must return a list of indexes of units");
            running.fault(HookName::Howmuch, text)
        };
        let Value::Table(list) = returned else {
            return Err(refuse(format!("returned a {}", type_of(&returned))));
        };
        let mut chosen = vec![];
        let mut seen = HashSet::new();
        // Reading one entry more than there are units is enough to find that a list is too long.
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

    /// A unit as the policy sees it. The first call creates the tables of all units.
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
