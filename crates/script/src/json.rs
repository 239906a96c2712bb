//! Converts values of a VM to JSON and back, for hooks that store or send a program's results.
//!
//! `nil` becomes `null`. A table with string keys becomes an object, any other table a list; an
//! empty table becomes an object. Numbers are doubles.

use mlua::{Lua, LuaString, Table, Value};
use nacre_object::{Error, Result};

/// The bounds of a value.
#[derive(Debug, Clone, Copy)]
pub struct JsonBounds {
    /// What the value is, for errors, such as "the state of a policy".
    pub what: &'static str,
    /// The most bytes of its JSON.
    pub bytes: usize,
    /// The deepest nesting of tables.
    pub depth: usize,
}

impl JsonBounds {
    /// Copies a value out of a VM. The size of the copy is bounded.
    ///
    /// # Errors
    /// `Invalid` for a value that JSON cannot express; `Exhausted` if the copy would be too large.
    pub fn from_lua(&self, value: &Value) -> Result<serde_json::Value> {
        let mut reader = Reader { bounds: self, room: self.bytes };
        let value = reader.read(value, self.depth)?;
        if value.is_null() || value.is_boolean() || value.is_number() {
            return Ok(value);
        }
        match value.to_string().len() > self.bytes {
            true => Err(self.too_large()),
            false => Ok(value),
        }
    }

    fn too_large(&self) -> Error {
        Error::exhausted(format!("{} exceeds {} bytes", self.what, self.bytes))
    }

    fn senseless(&self, why: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{} {why}", self.what))
    }
}

/// Copies a value into a VM.
///
/// # Errors
/// Errors of the VM.
pub fn json_to_lua(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    Ok(match value {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(value) => Value::Boolean(*value),
        serde_json::Value::Number(value) => Value::Number(value.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => Value::String(lua.create_string(text)?),
        serde_json::Value::Array(list) => {
            let table = lua.create_table_with_capacity(list.len(), 0)?;
            for value in list {
                table.raw_push(json_to_lua(lua, value)?)?;
            }
            Value::Table(table)
        }
        serde_json::Value::Object(named) => {
            let table = lua.create_table_with_capacity(0, named.len())?;
            for (key, value) in named {
                table.raw_set(key.as_str(), json_to_lua(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}

struct Reader<'a> {
    bounds: &'a JsonBounds,
    /// How many more bytes strings and entries may take.
    room: usize,
}

impl Reader<'_> {
    fn read(&mut self, value: &Value, depth: usize) -> Result<serde_json::Value> {
        Ok(match value {
            Value::Nil => serde_json::Value::Null,
            Value::Boolean(value) => (*value).into(),
            Value::Integer(value) => (*value).into(),
            Value::Number(value) => serde_json::Number::from_f64(*value)
                .ok_or_else(|| self.bounds.senseless(format!("cannot hold {value}")))?
                .into(),
            Value::String(text) => self.read_text(text)?.into(),
            Value::Table(table) => self.read_table(table, depth)?,
            other => {
                return Err(self.bounds.senseless(format!("cannot hold a {}", other.type_name())));
            }
        })
    }

    fn read_text(&mut self, text: &LuaString) -> Result<String> {
        self.take(text.as_bytes().len())?;
        let text = text.to_str().map_err(|_| self.bounds.senseless("is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn read_table(&mut self, table: &Table, depth: usize) -> Result<serde_json::Value> {
        let most = self.bounds.depth;
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| self.bounds.senseless(format!("has tables deeper than {most}")))?;
        let length = table.raw_len();
        let (mut list, mut named) = (vec![], serde_json::Map::new());
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| Error::invalid(error.to_string()))?;
            self.take(1)?;
            let value = self.read(&value, depth)?;
            match key {
                Value::String(key) => drop(named.insert(self.read_text(&key)?, value)),
                // The entries 1 to `length` come first, and in order.
                Value::Integer(_) | Value::Number(_) if list.len() < length => list.push(value),
                _ => return Err(self.mixed_keys()),
            }
        }
        match (list.is_empty(), named.is_empty()) {
            (false, true) => Ok(list.into()),
            (true, _) => Ok(named.into()),
            (false, false) => Err(self.mixed_keys()),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        self.room = self.room.checked_sub(bytes).ok_or_else(|| self.bounds.too_large())?;
        Ok(())
    }

    fn mixed_keys(&self) -> Error {
        self.bounds.senseless("has a table that is neither a list nor has strings as keys")
    }
}
