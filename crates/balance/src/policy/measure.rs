//! Measures the loads of many units in one run of a policy.
//!
//! One buffer carries the counters of a block of units into the VM, and a second buffer carries
//! their loads out. So measuring a unit takes only a few VM steps and creates no table.

use mlua::{Buffer, Function, Table, Value};
use nacre_object::{Error, Result};

use super::environment;
use super::hook_name::HookName;
use super::running::{RunTerms, Running, run};
use crate::limits::{BLOCK_UNITS, COUNTER_BYTES, UNITS_AT_ONCE};
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
    let loops = Loops {
        measure: find(running, &functions, "measure")?,
        check: find(running, &functions, "check")?,
        counters: buffer_of(running, BLOCK_UNITS * COUNTER_BYTES)?,
        loads: buffer_of(running, BLOCK_UNITS * size_of::<f64>())?,
    };
    let mut loads = Vec::with_capacity(units.len());
    for block in units.chunks(BLOCK_UNITS) {
        loops.measure_block(running, block, &mut loads)?;
    }
    Ok(loads)
}

/// The loops of a policy's script, and the buffers that they read and write.
struct Loops {
    measure: Function,
    check: Function,
    counters: Buffer,
    loads: Buffer,
}

impl Loops {
    fn measure_block(
        &self,
        running: &Running<'_>,
        block: &[UnitRates],
        loads: &mut Vec<f64>,
    ) -> Result<()> {
        // The loop measures several units in each step, so repeat the last unit until their number
        // fits.
        let count = block.len().next_multiple_of(UNITS_AT_ONCE);
        let repeated = block.last().into_iter().cycle().take(count - block.len());
        let bytes: Vec<_> = block.iter().chain(repeated).map(bytes_of).collect();
        self.counters.write_bytes(0, bytes.as_flattened());
        let ran = running.call(&self.measure, (&self.counters, &self.loads, count));
        let first = loads.len();
        let bytes = self.loads.to_vec();
        let measured = bytes.as_chunks().0.iter().map(|load| f64::from_le_bytes(*load));
        loads.extend(measured.take(block.len()));
        let is_load = |load: &f64| load.is_finite() && *load >= 0.0;
        if ran.is_ok() && loads[first..].iter().all(is_load) {
            return Ok(());
        }
        running.call(&self.check, (&self.counters, first, block.len()))?;
        let text = "`metaload` gives different loads for the same counters";
        Err(ran.err().unwrap_or_else(|| running.fault(HookName::Metaload, text)))
    }
}

/// The counters of a unit as the loops read them.
fn bytes_of(unit: &UnitRates) -> [u8; COUNTER_BYTES] {
    let mut bytes = [0; COUNTER_BYTES];
    for (bytes, value) in bytes.as_chunks_mut().0.iter_mut().zip(unit.values()) {
        *bytes = value.to_le_bytes();
    }
    bytes
}

fn find(running: &Running<'_>, functions: &Table, name: &str) -> Result<Function> {
    match running.explained(functions.raw_get(name))? {
        Value::Function(function) => Ok(function),
        _ => Err(no_function(running)),
    }
}

fn buffer_of(running: &Running<'_>, bytes: usize) -> Result<Buffer> {
    running.explained(running.lua().create_buffer(vec![0; bytes]))
}

fn no_function(running: &Running<'_>) -> Error {
    running.fault(HookName::Metaload, "`metaload` is not a function any more")
}
