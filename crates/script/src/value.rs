//! Plain data that is passed into or out of a VM, for hooks that need no handles.

use bytes::Bytes;
use mlua::Lua;
use nacre_object::{Error, Result};

use crate::limits::{MAX_VALUE_DEPTH, MAX_VALUE_ENTRIES};

/// A plain value. Tables are copied, so a value has no identity.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// `nil`.
    #[default]
    Nil,
    /// A truth value.
    Boolean(bool),
    /// A number. Integers are exact up to 2^53.
    Number(f64),
    /// A string of any bytes.
    Text(Bytes),
    /// A table: its entries. The entries 1, 2, … come first, in order.
    Table(Vec<(Value, Value)>),
}

/// The type of a value of the VM, as programs call it.
pub fn type_of(value: &mlua::Value) -> &'static str {
    match value {
        mlua::Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

impl Value {
    /// A string.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(Bytes::copy_from_slice(text.as_ref()))
    }

    /// A table with entries 1, 2, ….
    pub fn sequence(values: impl IntoIterator<Item = Value>) -> Self {
        let number = |(index, value)| (Self::Number((index + 1) as f64), value);
        Self::Table(values.into_iter().enumerate().map(number).collect())
    }

    /// A table with named entries.
    pub fn record<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Self {
        Self::Table(entries.into_iter().map(|(name, value)| (Self::text(name), value)).collect())
    }

    /// The entry of a table under a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let Self::Table(entries) = self else { return None };
        let named = |key: &Value| matches!(key, Self::Text(text) if text == name.as_bytes());
        entries.iter().find(|(key, _)| named(key)).map(|(_, value)| value)
    }

    pub(crate) fn to_lua(&self, lua: &Lua) -> mlua::Result<mlua::Value> {
        Ok(match self {
            Self::Nil => mlua::Value::Nil,
            Self::Boolean(value) => mlua::Value::Boolean(*value),
            Self::Number(value) => mlua::Value::Number(*value),
            Self::Text(text) => mlua::Value::String(lua.create_string(text)?),
            Self::Table(entries) => {
                let table = lua.create_table_with_capacity(0, entries.len())?;
                for (key, value) in entries {
                    table.raw_set(key.to_lua(lua)?, value.to_lua(lua)?)?;
                }
                mlua::Value::Table(table)
            }
        })
    }

    /// # Errors
    /// `Invalid` for a function or another handle, or for a table that exceeds the bounds.
    pub(crate) fn from_lua(value: &mlua::Value) -> Result<Self> {
        let mut entries_left = MAX_VALUE_ENTRIES;
        read(value, MAX_VALUE_DEPTH, &mut entries_left)
    }
}

fn read(value: &mlua::Value, depth: usize, entries_left: &mut usize) -> Result<Value> {
    Ok(match value {
        mlua::Value::Nil => Value::Nil,
        mlua::Value::Boolean(value) => Value::Boolean(*value),
        mlua::Value::Integer(value) => Value::Number(*value as f64),
        mlua::Value::Number(value) => Value::Number(*value),
        mlua::Value::String(text) => Value::text(text.as_bytes()),
        mlua::Value::Table(_) if depth == 0 => {
            let text = format!("the tables are nested more than {MAX_VALUE_DEPTH} levels deep");
            return Err(Error::invalid(text));
        }
        mlua::Value::Table(table) => {
            let mut entries = Vec::new();
            for pair in table.pairs::<mlua::Value, mlua::Value>() {
                let (key, value) = pair
                    .map_err(|error| Error::invalid(format!("a table cannot be read: {error}")))?;
                *entries_left = entries_left.checked_sub(1).ok_or_else(|| {
                    let most = MAX_VALUE_ENTRIES;
                    Error::invalid(format!("the tables have more than {most} entries in all"))
                })?;
                let key = read(&key, depth - 1, entries_left)?;
                entries.push((key, read(&value, depth - 1, entries_left)?));
            }
            Value::Table(entries)
        }
        other => {
            let text = format!("a {} is not plain data", other.type_name());
            return Err(
                Error::invalid(text).hint("use nil, booleans, numbers, strings and tables of them")
            );
        }
    })
}
