//! What a library of host functions gets when it is installed into a new VM.

use std::rc::Rc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use crate::guards::caught;
use crate::meter::{MemoryAccount, Meter, Pulse};
use crate::quick::{self, QuickAnswer, QuickArguments};

/// A VM that is being made, for the library to install itself.
pub struct Host<'a> {
    /// The VM.
    pub lua: &'a Lua,
    /// The table for the library's globals. Tables in it become read-only after the installation.
    pub globals: &'a Table,
    /// The account of memory that the library's values take outside the VM's heap.
    pub memory: MemoryAccount,
    /// Long-running functions of the library check the budget with this.
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

    /// A host function whose failures scripts usually catch.
    ///
    /// It behaves like a function of [`Lua::create_function`], but `pcall(function, …)` costs about
    /// a tenth if the function fails: the function then returns its error to `pcall` instead of
    /// raising it with a traceback.
    ///
    /// # Errors
    /// Errors of the VM.
    pub fn function<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        run: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<Function> {
        let run = Rc::new(run);
        let loud = run.clone();
        let function = self.lua.create_function(move |lua, arguments: A| loud(lua, arguments))?;
        self.catch_quietly(&function, move |lua, arguments| called(&*run, lua, arguments))?;
        Ok(function)
    }

    /// Like [`Host::function`], but calls `quick` first, see [`QuickAnswer`].
    ///
    /// # Errors
    /// Errors of the VM.
    pub fn quick_function<A: FromLuaMulti, R: IntoLuaMulti>(
        &self,
        quick: impl Fn(&QuickArguments<'_>) -> mlua::Result<QuickAnswer> + 'static,
        run: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
    ) -> mlua::Result<Function> {
        let run = Rc::new(run);
        let loud = run.clone();
        let behind = move |lua: &Lua, arguments| called(&*loud, lua, arguments);
        let function = quick::function(self.lua, quick, behind)?;
        self.catch_quietly(&function, move |lua, arguments| called(&*run, lua, arguments))?;
        Ok(function)
    }

    /// Registers a second version of a function that returns what `pcall` would return.
    fn catch_quietly(
        &self,
        function: &Function,
        run: impl Fn(&Lua, MultiValue) -> mlua::Result<MultiValue> + 'static,
    ) -> mlua::Result<()> {
        let meter = self.meter.clone();
        let quiet = self.lua.create_function(move |lua, arguments: MultiValue| {
            let (succeeded, mut values) = match run(lua, arguments) {
                Ok(values) => (true, values),
                Err(error) => (false, caught(lua, &meter, Value::Error(Box::new(error)))?),
            };
            values.push_front(Value::Boolean(succeeded));
            Ok(values)
        })?;
        self.quiet.raw_set(function, quiet)
    }
}

fn called<A: FromLuaMulti, R: IntoLuaMulti>(
    run: &dyn Fn(&Lua, A) -> mlua::Result<R>,
    lua: &Lua,
    arguments: MultiValue,
) -> mlua::Result<MultiValue> {
    run(lua, A::from_lua_multi(arguments, lua)?)?.into_lua_multi(lua)
}
