//! Converts the arguments of a capability program, and its results, to and from values of its VM.

use std::time::Duration;

use mlua::{Lua, Table, Value};
use nacre_capability::{Ask, Holding, Mode, Terms, Verdict, Wish};
use nacre_object::{Error, Result};

use super::interface::condition_names;
use crate::limits::{MAX_ROUND_TRIPS, MIN_ROUND_TRIPS};

/// The argument `ask`.
pub(super) fn ask_to_lua(lua: &Lua, ask: &Ask<'_>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 7)?;
    table.raw_set("client", &*ask.asker.entity)?;
    table.raw_set("tenant", &*ask.asker.tenant)?;
    table.raw_set("wish", word_for(ask.wish))?;
    table.raw_set("waited", ask.waited.as_secs_f64())?;
    let alone = if ask.alone == Duration::MAX { f64::INFINITY } else { ask.alone.as_secs_f64() };
    table.raw_set("alone", alone)?;
    table.raw_set("waiting", ask.waiting as f64)?;
    table.raw_set("operations", ask.operations as f64)?;
    Ok(table)
}

/// The argument `holding`.
pub(super) fn holding_to_lua(lua: &Lua, holding: &Holding<'_>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, 5)?;
    table.raw_set("client", &*holding.asker.entity)?;
    table.raw_set("tenant", &*holding.asker.tenant)?;
    table.raw_set("mode", word_for(holding.mode.wish()))?;
    table.raw_set("held", holding.held.as_secs_f64())?;
    table.raw_set("operations", holding.operations as f64)?;
    Ok(table)
}

fn word_for(wish: Wish) -> &'static str {
    match wish {
        Wish::Read => "read",
        Wish::Write => "write",
        Wish::Shared => Mode::Shared.as_str(),
        Wish::Exclusive => Mode::Exclusive.as_str(),
    }
}

/// What `grant` returned.
///
/// # Errors
/// `Invalid` with what it may return.
pub(super) fn verdict_from_lua(returned: &Value) -> Result<Verdict> {
    match returned {
        Value::Boolean(true) => Ok(Verdict::Grant(Terms::default())),
        Value::Table(conditions) => Ok(Verdict::Grant(terms_from_lua(conditions)?)),
        Value::Boolean(false) => Ok(Verdict::RoundTrip(nacre_capability::ALONE)),
        Value::Integer(_) | Value::Number(_) => {
            let again = seconds(returned, "`grant`")?;
            Ok(Verdict::RoundTrip(again.clamp(MIN_ROUND_TRIPS, MAX_ROUND_TRIPS)))
        }
        other => {
            let text = format!("`grant` returned a {}", other.type_name());
            Err(Error::invalid(text).hint("return a table, true, false or a number of seconds"))
        }
    }
}

fn terms_from_lua(conditions: &Table) -> Result<Terms> {
    let mut terms = Terms::default();
    for pair in conditions.pairs::<Value, Value>() {
        let (name, value) = pair.map_err(|error| Error::invalid(error.to_string()))?;
        let name = name.as_string().map(|name| name.to_string_lossy()).unwrap_or_default();
        match name.as_str() {
            "hold" => terms.hold = Some(seconds(&value, "`hold`")?),
            "operations" => terms.operations = Some(count(&value)?),
            _ => {
                let known: Vec<_> = condition_names().collect();
                return Err(Error::invalid(format!("there is no condition {name:?}"))
                    .hint(format!("use the conditions {}", known.join(" and "))));
            }
        }
    }
    Ok(terms)
}

fn count(value: &Value) -> Result<u64> {
    let number = number(value).filter(|number| *number >= 1.0 && number.fract() == 0.0);
    number
        .map(|number| number as u64)
        .ok_or_else(|| Error::invalid("`operations` must be a whole number that is at least 1"))
}

/// Reads a number of seconds, which must not be negative.
///
/// # Errors
/// `Invalid`, with `what` as the name of the value.
pub(super) fn seconds(value: &Value, what: &str) -> Result<Duration> {
    let number = number(value).filter(|number| *number >= 0.0);
    let number = number
        .ok_or_else(|| Error::invalid(format!("{what} gives no number of seconds from 0 on")))?;
    Ok(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

/// Reads the result of a program's function `turn`, which chooses one of `length` waiting clients.
/// Returns the client's index, from 0.
///
/// # Errors
/// `Invalid` with the values that `turn` may return.
pub(super) fn place(value: &Value, length: usize) -> Result<usize> {
    let number = number(value).filter(|number| *number >= 1.0 && number.fract() == 0.0);
    let place = number.filter(|number| *number <= length as f64);
    place.map(|place| place as usize - 1).ok_or_else(|| {
        let waiting = if length == 1 { "client waits" } else { "clients wait" };
        Error::invalid(format!("`turn` returned no place from 1 to {length}: {length} {waiting}"))
    })
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}
