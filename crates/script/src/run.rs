//! One run of a script.

use std::marker::PhantomData;
use std::sync::Arc;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table};
use nacre_clock::Clock;
use nacre_object::{Error, Result};

use crate::value::type_of;
use crate::{Script, Value, Vm};
use nacre_program::{Budget, Limit};

/// The terms of a run.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// What the run may use.
    pub budget: &'a Budget,
    /// The clock that measures its time.
    pub clock: &'a Arc<dyn Clock>,
    /// The seed of `math.random`. The same seed gives the same run.
    pub seed: u64,
}

/// One run of a script, with its own globals. Its budget covers everything from [`Vm::start`] until
/// the run is dropped.
///
/// A method fails with `Exhausted` if the budget is exceeded, or with the error that a host
/// function raised. Any other failure is a `Fault` with line and traceback.
pub struct Run<'vm> {
    vm: &'vm Vm,
    script: &'vm Script,
    opened: Option<(Function, Table)>,
    /// A run stays on its VM's thread.
    not_send: PhantomData<*const ()>,
}

impl<'vm> Run<'vm> {
    pub(crate) fn new(vm: &'vm Vm, script: &'vm Script) -> Self {
        Self { vm, script, opened: None, not_send: PhantomData }
    }

    pub(crate) fn open(mut self) -> Result<Self> {
        let opened = self.vm.instantiate(self.script).map_err(|error| self.explain(&error))?;
        self.opened = Some(opened);
        Ok(self)
    }

    /// For a kept script: lets all later runs use this run's globals. Call this after the chunk has
    /// run.
    pub fn keep(&self) {
        if self.script.is_kept() {
            self.vm.keep(self.script, self.globals());
        }
    }

    /// The script.
    pub fn script(&self) -> &Script {
        self.script
    }

    /// Gives the script a global.
    pub fn set(&self, name: &str, value: &Value) -> Result<()> {
        let set = || self.globals().raw_set(name, value.to_lua(self.lua())?);
        set().map_err(|error| self.explain(&error))
    }

    /// Runs the chunk. Returns its results.
    pub fn load(&self) -> Result<MultiValue> {
        self.call(self.chunk(), ())
    }

    /// A global that the script has set or the base has; `Nil` if there is none.
    pub fn global(&self, name: &str) -> Result<mlua::Value> {
        match self.globals().raw_get(name) {
            // A look-up in the base may run a metamethod of the script.
            Ok(mlua::Value::Nil) => self.vm.limited(|| self.globals().get(name)),
            known => known,
        }
        .map_err(|error| self.explain(&error))
    }

    /// The global function `name`; `None` if the script does not define it.
    ///
    /// # Errors
    /// `Invalid` if it is no function.
    pub fn function(&self, name: &str) -> Result<Option<Function>> {
        match self.global(name)? {
            mlua::Value::Function(function) => Ok(Some(function)),
            mlua::Value::Nil => Ok(None),
            other => Err(Error::invalid(format!(
                "`{name}` is a {}; it must be a function",
                type_of(&other)
            ))),
        }
    }

    /// The global function `name`, which the script must define. `hint` says how.
    ///
    /// # Errors
    /// `Invalid` if there is no such function.
    pub fn required_function(&self, name: &str, hint: &str) -> Result<Function> {
        self.function(name)?.ok_or_else(|| {
            Error::invalid(format!("the program must define a function `{name}`")).hint(hint)
        })
    }

    /// Calls a function of the script, or a host function.
    pub fn call(&self, function: &Function, arguments: impl IntoLuaMulti) -> Result<MultiValue> {
        self.call_for(function, arguments)
    }

    /// Calls a function and converts the results to known types.
    pub fn call_for<R: FromLuaMulti>(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Result<R> {
        let returned = self.vm.limited(|| function.call(arguments));
        let returned = returned.map_err(|error| self.explain(&error))?;
        self.vm.verdict(self.script)?;
        Ok(returned)
    }

    /// Calls the global function `name` with plain values; `None` if there is no such function.
    pub fn call_global(&self, name: &str, arguments: &[Value]) -> Result<Option<Vec<Value>>> {
        let mlua::Value::Function(function) = self.global(name)? else { return Ok(None) };
        let arguments: mlua::Result<MultiValue> =
            arguments.iter().map(|value| value.to_lua(self.lua())).collect();
        let arguments = arguments.map_err(|error| self.explain(&error))?;
        let returned = self.call(&function, arguments)?;
        returned.iter().map(Value::from_lua).collect::<Result<_>>().map(Some)
    }

    /// Fails if `bytes` of output exceed the budget.
    pub fn check_output(&self, bytes: usize) -> Result<()> {
        self.vm.meter().check_output(bytes)
    }

    /// The limit that the run exceeded first, if any.
    pub fn exceeded(&self) -> Option<Limit> {
        self.vm.meter().exceeded().map(|exceeded| exceeded.limit)
    }

    /// The VM, for a host library that makes its own values.
    pub fn lua(&self) -> &Lua {
        self.vm.lua()
    }

    /// Converts an error of [`Run::lua`] into an error of this script.
    pub fn explain(&self, error: &mlua::Error) -> Error {
        self.vm.explain(error, self.script)
    }

    /// The chunk, for a host function that executes it.
    pub fn chunk(&self) -> &Function {
        &self.opened.as_ref().expect("a run that was handed out is open").0
    }

    /// The script's globals.
    pub fn globals(&self) -> &Table {
        &self.opened.as_ref().expect("a run that was handed out is open").1
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.opened = None;
        self.vm.settle();
    }
}
