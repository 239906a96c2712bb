//! What a host library is given to install itself.

use std::rc::Rc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use crate::guards::caught;
use crate::meter::{MemoryAccount, Meter, Pulse};

/// A VM that is being made, as a host library sees it.
pub struct Host<'a> {
    /// The VM.
    pub lua: &'a Lua,
    /// Where the library's names go; tables put here become read-only once it is done.
    pub globals: &'a Table,
    /// Where its values account for memory outside the VM's heap.
    pub memory: MemoryAccount,
    /// What its long-running functions ask whether to go on.
    pub pulse: Pulse,
    quiet: &'a Table,
    meter: &'a Rc<Meter>,
}

impl<'a> Host<'a> {
    pub(crate) fn new(
        lua: &'a Lua,
        globals: &'a Table,
        quiet: &'a Table,
        meter: &'a Rc<Meter>,
    ) -> Self {
        let memory = MemoryAccount::new(meter.clone());
        let pulse = Pulse::new(meter.clone());
        Self { lua, globals, memory, pulse, quiet, meter }
    }

    /// A function whose failures scripts are expected to catch.
    ///
    /// It behaves as one made by [`Lua::create_function`], but `pcall(function, …)` takes a short
    /// cut: the outcome is returned, not thrown, recorded with a traceback and caught, which costs
    /// ten times as much as the rest of such a call.
    ///
    /// # Errors
    /// Those of the VM.
    pub fn function<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        run: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<Function> {
        let run = Rc::new(run);
        let loud = run.clone();
        let function = self.lua.create_function(move |lua, arguments: A| loud(lua, arguments))?;
        let meter = self.meter.clone();
        let quiet = self.lua.create_function(move |lua, arguments: MultiValue| {
            let outcome = A::from_lua_multi(arguments, lua)
                .and_then(|arguments| run(lua, arguments))
                .and_then(|returned| returned.into_lua_multi(lua));
            let (succeeded, mut values) = match outcome {
                Ok(values) => (true, values),
                Err(error) => (false, caught(lua, &meter, Value::Error(Box::new(error)))?),
            };
            values.push_front(Value::Boolean(succeeded));
            Ok(values)
        })?;
        self.quiet.raw_set(&function, quiet)?;
        Ok(function)
    }
}
