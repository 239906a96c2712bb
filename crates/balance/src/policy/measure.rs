//! The loads of many units in one run.
//!
//! The counters go into the VM as one buffer and the loads come out as another, so that a unit costs a few
//! steps of the VM and no table.

use mlua::Value;
use nacre_object::{Error, Result};

use super::environment;
use super::hook_name::HookName;
use super::running::{RunTerms, Running, run};
use crate::limits::COUNTER_BYTES;
use crate::tick::check_unit_count;
use crate::{State, UnitRates};

pub(super) fn measure(terms: &RunTerms<'_>, units: &[UnitRates]) -> Result<Vec<f64>> {
    check_unit_count(units.len())?;
    if let Some(at) = units.iter().position(|unit| unit.values().iter().any(|it| !it.is_finite())) {
        return Err(Error::invalid(format!("a counter of unit {} is not finite", at + 1)));
    }
    if units.is_empty() {
        return Ok(vec![]);
    }
    run(terms, |running| measure_in(running, units))
}

fn measure_in(running: &Running<'_>, units: &[UnitRates]) -> Result<Vec<f64>> {
    running.library.begin(&State::default());
    environment::set_empty(running)?;
    let Value::Table(functions) = running.load()? else { return Err(no_function(running)) };
    let Value::Function(measure) = running.explained(functions.raw_get("measure"))? else {
        return Err(no_function(running));
    };
    let mut counters = Vec::with_capacity(units.len() * COUNTER_BYTES);
    for unit in units {
        for value in unit.values() {
            counters.extend_from_slice(&value.to_le_bytes());
        }
    }
    let counters = running.explained(running.lua().create_buffer(counters))?;
    let loads = vec![0; size_of::<f64>() * units.len()];
    let loads = running.explained(running.lua().create_buffer(loads))?;
    running.call(&measure, (counters, &loads, units.len()))?;
    let loads = loads.to_vec();
    Ok(loads.as_chunks().0.iter().map(|load| f64::from_le_bytes(*load)).collect())
}

fn no_function(running: &Running<'_>) -> Error {
    running.fault(HookName::Metaload, "the policy lost its `metaload`")
}
