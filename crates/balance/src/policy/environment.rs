//! The globals that a run gives a policy: the ranks, the rank's own units, and the table of
//! targets.

use mlua::{Lua, Table};
use nacre_object::Result;

use super::running::Running;
use crate::{Inputs, RankLoad, UnitRates};

/// Sets the globals of a run, and returns the table of the ranks. A policy that never reads `units`
/// runs without this global, which is costly to build.
pub(super) fn set(running: &Running<'_>, inputs: &Inputs, sees_units: bool) -> Result<Table> {
    let ranks = running.explained(rank_tables(running.lua(), inputs))?;
    running.set("MDSs", &ranks)?;
    running.set("mds", &ranks)?;
    running.set("whoami", inputs.whoami + 1)?;
    running.set("total", 0)?;
    running.set("targets", running.explained(running.lua().create_table())?)?;
    set_own_load(running, inputs)?;
    if sees_units {
        running.set("units", unit_list(running, inputs)?)?;
    }
    Ok(ranks)
}

/// Sets the globals of a run that measures units. Its tables of ranks and units are empty, because
/// the load of a unit depends only on the unit's counters.
pub(super) fn set_empty(running: &Running<'_>) -> Result<()> {
    for name in ["MDSs", "mds", "targets", "units"] {
        running.set(name, running.explained(running.lua().create_table())?)?;
    }
    for name in ["total", "authmetaload", "allmetaload"] {
        running.set(name, 0)?;
    }
    running.set("whoami", 1)
}

/// Sets the deciding rank's own load to its present value, which is newer than the rank's
/// heartbeat.
pub(super) fn set_own_load(running: &Running<'_>, inputs: &Inputs) -> Result<()> {
    let own: f64 = inputs.unit_loads.iter().sum();
    let heartbeat = &inputs.ranks[inputs.whoami];
    running.set("authmetaload", own)?;
    running.set("allmetaload", own + (heartbeat.all - heartbeat.auth).max(0.0))?;
    let mut sums = [0.0; UnitRates::NAMES.len()];
    for unit in &inputs.units {
        for (sum, value) in sums.iter_mut().zip(unit.rates.values()) {
            *sum += value;
        }
    }
    for (name, sum) in UnitRates::NAMES.iter().zip(sums) {
        running.set(name, sum)?;
    }
    Ok(())
}

/// The table of the deciding rank's units, as the policy sees it. A rank may have very many units,
/// so the names of the fields are created only once.
pub(super) fn unit_list(running: &Running<'_>, inputs: &Inputs) -> Result<Table> {
    let lua = running.lua();
    let list = || {
        let [name, kind, tenant, load] = ["name", "kind", "tenant", "load"];
        let (name, kind) = (lua.create_string(name)?, lua.create_string(kind)?);
        let (tenant, load) = (lua.create_string(tenant)?, lua.create_string(load)?);
        let list = lua.create_table_with_capacity(inputs.units.len(), 0)?;
        for (unit, unit_load) in inputs.units.iter().zip(&inputs.unit_loads) {
            let table = lua.create_table_with_capacity(0, 4)?;
            table.raw_set(&name, unit.name.as_str())?;
            table.raw_set(&kind, unit.kind.as_str())?;
            table.raw_set(&tenant, unit.tenant.as_str())?;
            table.raw_set(&load, *unit_load)?;
            list.raw_push(table)?;
        }
        Ok(list)
    };
    running.explained(list())
}

fn rank_tables(lua: &Lua, inputs: &Inputs) -> mlua::Result<Table> {
    let list = lua.create_table_with_capacity(inputs.ranks.len(), 0)?;
    for rank in &inputs.ranks {
        let table = lua.create_table_with_capacity(0, 10)?;
        table.raw_set("auth", rank.auth)?;
        table.raw_set("all", rank.all)?;
        table.raw_set("cpu", rank.cpu)?;
        table.raw_set("mem", rank.mem)?;
        table.raw_set("q", rank.queue)?;
        table.raw_set("req", rank.requests)?;
        set_node(lua, &table, rank)?;
        list.raw_push(table)?;
    }
    Ok(list)
}

/// Sets the labels, the capacity and the name of a rank's node.
fn set_node(lua: &Lua, table: &Table, rank: &RankLoad) -> mlua::Result<()> {
    let labels = lua.create_table_with_capacity(0, rank.labels.len())?;
    for (name, value) in &rank.labels {
        labels.raw_set(name.as_str(), value.as_str())?;
    }
    table.raw_set("node", rank.node.as_str())?;
    table.raw_set("labels", labels)?;
    table.raw_set("capacity", rank.capacity)
}
