//! Freezes the state of a loaded script, so that the VM can keep the script loaded for many runs.
//!
//! A script that is loaded anew for each run starts without state. If it stays loaded, its globals
//! and its chunk's variables (upvalues) would pass from one run to the next. So this module makes
//! all tables that its functions reach read-only; a function that changes one fails. A script
//! cannot stay loaded if an upvalue is neither a table nor a function, because functions could
//! assign to it. Constants do not count as upvalues: the compiler replaces them by their values.

use std::collections::HashSet;

use mlua::{Function, Lua, MultiValue, Table, Value, ffi};

/// Makes the globals read-only, and all tables that can be reached from the globals and the
/// functions. Returns false if a function may keep state between calls all the same.
///
/// # Errors
/// Errors of the VM.
pub fn freeze<'a>(
    lua: &Lua,
    globals: &Table,
    functions: impl IntoIterator<Item = &'a Function>,
) -> mlua::Result<bool> {
    let mut seen = HashSet::new();
    let mut open: Vec<_> = functions.into_iter().cloned().map(Value::Function).collect();
    open.extend(globals.pairs::<Value, Value>().filter_map(Result::ok).map(|(_, value)| value));
    globals.set_readonly(true);
    while let Some(value) = open.pop() {
        if !seen.insert(value.to_pointer()) {
            continue;
        }
        match value {
            Value::Table(table) => {
                table.set_readonly(true);
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    open.extend([key, value].into_iter().filter(is_reference));
                }
            }
            Value::Function(function) if function.info().what != "C" => {
                let kept = upvalues(lua, &function)?;
                if !kept.iter().all(is_reference) {
                    return Ok(false);
                }
                open.extend(kept);
            }
            _ => {}
        }
    }
    Ok(true)
}

fn is_reference(value: &Value) -> bool {
    matches!(value, Value::Table(_) | Value::Function(_))
}

/// The variables of the chunk that a function of the script uses.
fn upvalues(lua: &Lua, function: &Function) -> mlua::Result<MultiValue> {
    // SAFETY: the function is the only value on the stack. Each call of `lua_getupvalue` pushes one
    // value or returns null. A function has at most 255 upvalues, and the stack has space for them.
    unsafe {
        lua.exec_raw(function.clone(), |state| {
            ffi::lua_checkstack(state, 256);
            let mut number = 1;
            while !ffi::lua_getupvalue(state, 1, number).is_null() {
                number += 1;
            }
            ffi::lua_remove(state, 1);
        })
    }
}
