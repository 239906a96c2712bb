//! Runs a policy in the Ceph dialect: the policy is one chunk of Lua that returns the targets.
//!
//! The checks are those of Ceph 18: the chunk returns a table with integer keys, numbers as values,
//! and one entry for each rank. Any other result is an error that begins with "invalid argument".

use std::cell::OnceCell;

use mlua::{Table, Value};
use nacre_object::{Error, Result};
use nacre_script::type_of;

use super::environment;
use super::hooks::PolicySelector;
use super::moves::Choice;
use super::original;
use super::running::{RunTerms, Running, run};
use super::targets::{self, Numbering};
use crate::{Decision, Inputs, Selector};

/// Ranks are numbered from 0, as in Ceph.
const NUMBERING: Numbering = Numbering { first: 0, is_complete: true };

pub(super) fn decide(terms: &RunTerms<'_>, inputs: &Inputs, sees_units: bool) -> Result<Decision> {
    run(terms, |running| {
        running.library.begin(&inputs.state);
        let mut decision = decide_in(running, inputs, sees_units)?;
        (decision.state, decision.log) = running.library.finish();
        Ok(decision)
    })
}

fn decide_in(running: &Running<'_>, inputs: &Inputs, sees_units: bool) -> Result<Decision> {
    let ranks = running.explained(rank_tables(running, inputs))?;
    running.set("mds", &ranks)?;
    running.set("whoami", inputs.whoami)?;
    environment::set_own_load(running, inputs)?;
    if sees_units {
        running.set("units", environment::unit_list(running, inputs)?)?;
    }
    let targets = match running.load()? {
        Value::Table(table) => targets::read(&table, inputs, NUMBERING),
        other => Err(format!("the policy returned a {}, not a table", type_of(&other))),
    };
    let targets = targets.map_err(|text| invalid_argument(running, &text))?;
    let loads = rank_loads(&ranks, inputs);
    let mut decision = Decision {
        total: loads.iter().sum(),
        loads,
        is_due: targets.iter().any(|target| *target > 0.0),
        targets,
        ..Decision::default()
    };
    let selectors = original::HOWMUCH.iter().filter_map(|name| {
        Some(PolicySelector::BuiltIn(Selector::named(name)?, (*name).to_owned()))
    });
    let selectors: Vec<_> = selectors.collect();
    let units = OnceCell::new();
    let choice = Choice { running, inputs, selectors: &selectors, placement: None, units };
    choice.choose(&mut decision)?;
    Ok(decision)
}

fn invalid_argument(running: &Running<'_>, text: &str) -> Error {
    let line = line_of_result(running.source());
    Error::invalid(format!("invalid argument: {text}")).with_fault(running.site_at(line))
}

/// Guesses which line returned the chunk's result, for the error about an invalid result: the last
/// line that begins with `return`.
fn line_of_result(source: &str) -> Option<u32> {
    let lines: Vec<_> = source.lines().collect();
    let last = lines.iter().rposition(|line| line.trim_start().starts_with("return"));
    last.map(|at| at as u32 + 1)
}

fn rank_tables(running: &Running<'_>, inputs: &Inputs) -> mlua::Result<Table> {
    let lua = running.lua();
    let list = lua.create_table_with_capacity(inputs.ranks.len(), 1)?;
    for (number, rank) in inputs.ranks.iter().enumerate() {
        let table = lua.create_table_with_capacity(0, 8)?;
        table.raw_set("auth.meta_load", rank.auth)?;
        table.raw_set("all.meta_load", rank.all)?;
        table.raw_set("req_rate", rank.requests)?;
        table.raw_set("queue_len", rank.queue)?;
        table.raw_set("cpu_load_avg", rank.cpu)?;
        list.raw_set(number, table)?;
    }
    Ok(list)
}

/// The load of each rank: its field `load` if the policy has set one, otherwise the load of all its
/// units.
fn rank_loads(tables: &Table, inputs: &Inputs) -> Vec<f64> {
    let load = |(number, rank): (usize, &crate::RankLoad)| {
        let table = tables.raw_get::<Table>(number).ok()?;
        let load = table.raw_get::<f64>("load").ok().filter(|load| load.is_finite());
        Some(load.unwrap_or(rank.all))
    };
    let loads = inputs.ranks.iter().enumerate();
    loads.map(|it| load(it).unwrap_or_default()).collect()
}
