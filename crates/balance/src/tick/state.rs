//! `State`: what a policy keeps between ticks.

use mlua::{Lua, Table, Value};
use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::limits::{MAX_STATE_BYTES, MAX_STATE_DEPTH};

/// What a policy keeps between ticks: `nil`, a truth value, a number, a string, a list, or a table with strings as
/// keys. It is written as the same value in JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct State(serde_json::Value);

impl State {
    /// The value.
    pub fn value(&self) -> &serde_json::Value {
        &self.0
    }

    /// Whether nothing was written yet.
    pub fn is_nil(&self) -> bool {
        self.0.is_null()
    }

    /// Reads what a policy wrote.
    ///
    /// # Errors
    /// `Invalid` for a value that cannot be kept; `Exhausted` for one that is too large.
    pub(crate) fn from_lua(value: &Value) -> Result<Self> {
        let mut room = MAX_STATE_BYTES;
        let value = read(value, MAX_STATE_DEPTH, &mut room)?;
        if value.to_string().len() > MAX_STATE_BYTES {
            return Err(too_large());
        }
        Ok(Self(value))
    }

    pub(crate) fn to_lua(&self, lua: &Lua) -> mlua::Result<Value> {
        write(lua, &self.0)
    }
}

/// A value that was made outside of a policy, as in a test. A policy's own is never larger than
/// [`MAX_STATE_BYTES`].
impl From<serde_json::Value> for State {
    fn from(value: serde_json::Value) -> Self {
        Self(value)
    }
}

fn too_large() -> Error {
    Error::exhausted(format!("the state of a policy exceeds {MAX_STATE_BYTES} bytes"))
}

/// Copies a value out of the VM. `room` is what its strings and entries may still take, so that no more is copied than
/// may be kept.
fn read(value: &Value, depth: usize, room: &mut usize) -> Result<serde_json::Value> {
    Ok(match value {
        Value::Nil => serde_json::Value::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Number(value) => serde_json::Number::from_f64(*value)
            .ok_or_else(|| Error::invalid(format!("{value} cannot be kept as state")))?
            .into(),
        Value::String(text) => read_text(text, room)?.into(),
        Value::Table(table) => read_table(table, depth, room)?,
        other => {
            return Err(Error::invalid(format!("a {} cannot be kept as state", other.type_name())));
        }
    })
}

fn read_text(text: &mlua::LuaString, room: &mut usize) -> Result<String> {
    *room = room.checked_sub(text.as_bytes().len()).ok_or_else(too_large)?;
    let text = text.to_str().map_err(|_| Error::invalid("the state of a policy is not UTF-8"))?;
    Ok(text.to_owned())
}

fn read_table(table: &Table, depth: usize, room: &mut usize) -> Result<serde_json::Value> {
    let depth = depth.checked_sub(1).ok_or_else(|| {
        Error::invalid(format!("tables nested deeper than {MAX_STATE_DEPTH} cannot be kept"))
    })?;
    let length = table.raw_len();
    let (mut list, mut named) = (vec![], serde_json::Map::new());
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| Error::invalid(error.to_string()))?;
        *room = room.checked_sub(1).ok_or_else(too_large)?;
        let value = read(&value, depth, room)?;
        match key {
            Value::String(key) => drop(named.insert(read_text(&key, room)?, value)),
            // The entries 1 to `length` come first, and in order.
            Value::Integer(_) | Value::Number(_) if list.len() < length => list.push(value),
            _ => return Err(mixed_keys()),
        }
    }
    match (list.is_empty(), named.is_empty()) {
        (false, true) => Ok(list.into()),
        (true, _) => Ok(named.into()),
        (false, false) => Err(mixed_keys()),
    }
}

fn mixed_keys() -> Error {
    Error::invalid("a table that is kept as state is a list, or has strings as keys")
}

fn write(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    Ok(match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Boolean(*value),
        serde_json::Value::Number(value) => Value::Number(value.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Value::String(lua.create_string(text)?),
        serde_json::Value::Array(list) => {
            let table = lua.create_table_with_capacity(list.len(), 0)?;
            for value in list {
                table.raw_push(write(lua, value)?)?;
            }
            Value::Table(table)
        }
        serde_json::Value::Object(named) => {
            let table = lua.create_table_with_capacity(0, named.len())?;
            for (key, value) in named {
                table.raw_set(key.as_str(), write(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}
