//! Makes everything that functions keep between calls read-only, so that a script can stay loaded.
//!
//! A script that is loaded anew for each run loses its state: globals, and variables of the chunk
//! (upvalues). A script that stays loaded would keep it. So all tables that its functions reach
//! become read-only, and a function that changes one fails. If a function reaches a variable that
//! is no table or function, it may change; constants do not count, because the compiler has
//! replaced them by their values.

use std::collections::HashSet;

use mlua::{Function, Lua, MultiValue, Table, Value, ffi};

/// Makes the globals of functions, and all tables that they reach, read-only. Returns whether the
/// functions keep no state between calls from then on.
///
/// # Errors
/// Those of the VM.
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
    // SAFETY: the function is the only value on the stack. Each call pushes one value or returns null; there are at most 255
    // of them, for which the stack is made large enough.
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
