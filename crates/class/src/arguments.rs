//! Converts the arguments of host functions as Lua's own library does. A number is accepted where a
//! string is expected, and a numeric string where a number is expected. For any other value the
//! script gets an ordinary error.

use mlua::{AnyUserData, Lua, LuaString, UserDataRefMut, Value};
use nacre_object::Error;
use nacre_object::limits::MAX_EXACT_INTEGER;
use nacre_script::raise;

use crate::buffer_list::BufferList;

/// Reads the arguments of one function.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    pub lua: &'a Lua,
    /// The function's name, for messages.
    pub function: &'static str,
}

impl Arguments<'_> {
    /// A string.
    pub fn text(self, position: usize, value: &Value) -> mlua::Result<LuaString> {
        match value {
            Value::String(text) => Ok(text.clone()),
            Value::Integer(_) | Value::Number(_) => {
                let text = self.lua.coerce_string(value.clone())?;
                text.ok_or_else(|| self.mismatch(position, "string", value))
            }
            _ => Err(self.mismatch(position, "string", value)),
        }
    }

    /// The name of an attribute.
    pub fn name(self, position: usize, value: &Value) -> mlua::Result<String> {
        let text = self.text(position, value)?;
        let name = text.to_str().map(|name| name.to_owned());
        name.map_err(|_| raise(Error::invalid("an attribute's name must be UTF-8")))
    }

    /// A whole number.
    pub fn integer(self, position: usize, value: &Value) -> mlua::Result<i64> {
        let number = match value {
            Value::Integer(_) | Value::Number(_) | Value::String(_) => {
                self.lua.coerce_number(value.clone())?
            }
            _ => None,
        };
        number.and_then(whole).ok_or_else(|| self.mismatch(position, "whole number", value))
    }

    /// An offset, a length or a count; a negative one is `-EINVAL`.
    pub fn size(self, position: usize, value: &Value) -> mlua::Result<u64> {
        let number = self.integer(position, value)?;
        u64::try_from(number).map_err(|_| {
            let text = format!("argument {position} of {}: {number} is negative", self.function);
            raise(Error::invalid(text))
        })
    }

    /// A buffer list.
    pub fn buffer_list(
        self,
        position: usize,
        value: &Value,
    ) -> mlua::Result<UserDataRefMut<BufferList>> {
        buffer_list_of(value).ok_or_else(|| self.mismatch(position, "bufferlist", value))
    }

    fn mismatch(self, position: usize, expected: &str, value: &Value) -> mlua::Error {
        let got = value.type_name();
        let function = self.function;
        mlua::Error::runtime(format!(
            "bad argument #{position} to '{function}' ({expected} expected, got {got})"
        ))
    }
}

/// The buffer list a value is, if it is one.
pub(crate) fn buffer_list_of(value: &Value) -> Option<UserDataRefMut<BufferList>> {
    let userdata: &AnyUserData = value.as_userdata()?;
    userdata.borrow_mut::<BufferList>().ok()
}

/// A number without fraction that a double holds exactly.
pub(crate) fn whole(number: f64) -> Option<i64> {
    let exact = number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER as f64;
    exact.then_some(number as i64)
}
