//! A decision of a policy in the hooks dialect.

use std::cell::OnceCell;

use mlua::{Function, Table, Value};
use nacre_object::Result;
use nacre_script::type_of;

use super::environment;
use super::hook_name::HookName;
use super::hooks::{PolicySelector, read_selectors};
use super::moves::Choice;
use super::running::{RunTerms, Running, run};
use super::targets::{self, Numbering};
use super::values::{described, number};
use crate::{Decision, Inputs};

/// Ranks are numbered from 1, as in the Mantle paper.
const NUMBERING: Numbering = Numbering { first: 1, is_complete: false };

/// The functions of a policy's script.
pub(super) struct PolicyFunctions(Table);

impl PolicyFunctions {
    /// Executes the script, which makes them.
    pub fn load(running: &Running<'_>) -> Result<Self> {
        match running.load()? {
            Value::Table(functions) => Ok(Self(functions)),
            _ => Err(running.fault(HookName::When, "the policy's script returned no hooks")),
        }
    }

    fn find(&self, running: &Running<'_>, hook: HookName) -> Result<Option<Function>> {
        match running.explained(self.0.raw_get(hook.as_str()))? {
            Value::Function(function) => Ok(Some(function)),
            Value::Nil => Ok(None),
            other => {
                let text = format!("`{hook}` is a {}; it must be a function", type_of(&other));
                Err(running.fault(hook, text))
            }
        }
    }

    fn required(&self, running: &Running<'_>, hook: HookName) -> Result<Function> {
        let function = self.find(running, hook)?;
        function.ok_or_else(|| running.fault(hook, format!("`{hook}` is nil at this tick")))
    }

    /// The selectors of the policy.
    pub fn selectors(&self, running: &Running<'_>) -> Result<Vec<PolicySelector>> {
        let list = running.explained(self.0.raw_get::<Value>(HookName::Howmuch.as_str()))?;
        read_selectors(running, &list)
    }
}

pub(super) fn decide(terms: &RunTerms<'_>, inputs: &Inputs, sees_units: bool) -> Result<Decision> {
    run(terms, |running| {
        running.library.begin(&inputs.state);
        let mut decision = decide_in(running, inputs, sees_units)?;
        (decision.state, decision.log) = running.library.finish();
        Ok(decision)
    })
}

fn decide_in(running: &Running<'_>, inputs: &Inputs, sees_units: bool) -> Result<Decision> {
    let ranks = environment::set(running, inputs, sees_units)?;
    let functions = PolicyFunctions::load(running)?;
    let loads = rank_loads(running, &functions, &ranks, inputs.ranks.len())?;
    let total = loads.iter().sum();
    if !f64::is_finite(total) {
        return Err(running.fault(HookName::Mdsload, "the sum of all loads is not finite"));
    }
    running.set("total", total)?;
    let targets = vec![0.0; loads.len()];
    let mut decision = Decision { loads, total, targets, ..Decision::default() };
    decision.is_due = is_due(running, &functions)?;
    if !decision.is_due {
        return Ok(decision);
    }
    if let Some(where_) = functions.find(running, HookName::Where)? {
        running.call(&where_, ())?;
    }
    decision.targets = read_targets(running, inputs)?;
    let choice = Choice {
        running,
        inputs,
        selectors: &functions.selectors(running)?,
        placement: functions.find(running, HookName::Placement)?,
        units: OnceCell::new(),
    };
    choice.choose(&mut decision)?;
    Ok(decision)
}

/// Calls `mdsload` for each rank, and lets the policy see the results.
fn rank_loads(
    running: &Running<'_>,
    functions: &PolicyFunctions,
    tables: &Table,
    ranks: usize,
) -> Result<Vec<f64>> {
    let mdsload = functions.required(running, HookName::Mdsload)?;
    let load_of = |rank: usize| {
        let value = running.call(&mdsload, rank)?;
        let Some(load) = number(&value).filter(|load| load.is_finite()) else {
            let what = described(&value);
            let text = format!("`mdsload` of rank {rank} gives {what}; a load is a finite number");
            return Err(running.fault(HookName::Mdsload, text));
        };
        let set = || tables.raw_get::<Table>(rank)?.raw_set("load", load);
        running.explained(set())?;
        Ok(load)
    };
    (1..=ranks).map(load_of).collect()
}

fn is_due(running: &Running<'_>, functions: &PolicyFunctions) -> Result<bool> {
    let when = functions.required(running, HookName::When)?;
    match running.call(&when, ())? {
        Value::Boolean(is_due) => Ok(is_due),
        Value::Nil => Ok(false),
        other => {
            let text = format!("`when` gives a {}; it must give true or false", type_of(&other));
            Err(running.fault(HookName::When, text))
        }
    }
}

fn read_targets(running: &Running<'_>, inputs: &Inputs) -> Result<Vec<f64>> {
    let refuse = |text: String| running.fault(HookName::Where, text);
    match running.global("targets")? {
        Value::Table(table) => targets::read(&table, inputs, NUMBERING).map_err(refuse),
        other => Err(refuse(format!("`targets` is a {}; it must be a table", type_of(&other)))),
    }
}
