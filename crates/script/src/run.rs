//! One run of a script.

use std::marker::PhantomData;
use std::sync::Arc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table};
use nacre_clock::Clock;
use nacre_object::Result;

use crate::{Budget, Script, Value, Vm};

/// On what terms a script is run.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// What it may use.
    pub budget: &'a Budget,
    /// By which clock its time is measured.
    pub clock: &'a Arc<dyn Clock>,
    /// What `math.random` starts from: the same seed gives the same run.
    pub seed: u64,
}

/// A script in an environment of its own, under a budget that covers everything from
/// [`Vm::start`] until this is dropped.
///
/// Errors of every method: `Exhausted` past the budget; what a host function raised; else a `Fault`
/// with line and traceback.
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

    /// Gives the script a global.
    pub fn set(&self, name: &str, value: &Value) -> Result<()> {
        let set = || self.globals().raw_set(name, value.to_lua(self.lua())?);
        set().map_err(|error| self.explain(&error))
    }

    /// Executes the chunk; answers what it returned.
    pub fn load(&self) -> Result<MultiValue> {
        self.call(self.main(), ())
    }

    /// A global the script has set or the base holds; `Nil` if there is none.
    pub fn global(&self, name: &str) -> Result<mlua::Value> {
        let own = self.globals().raw_get(name);
        match own {
            Ok(mlua::Value::Nil) => self.globals().get(name),
            known => known,
        }
        .map_err(|error| self.explain(&error))
    }

    /// The names of the globals the script has set, in no order.
    pub fn own_globals(&self) -> Vec<(String, mlua::Value)> {
        self.globals().pairs::<String, mlua::Value>().flatten().collect()
    }

    /// Calls a function of the script.
    pub fn call(&self, function: &Function, arguments: impl IntoLuaMulti) -> Result<MultiValue> {
        let returned = function.call(arguments).map_err(|error| self.explain(&error))?;
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

    /// The VM, for a host library that makes its own values.
    pub fn lua(&self) -> &Lua {
        self.vm.lua()
    }

    /// Why something done with [`Run::lua`] failed, as an error of this script.
    pub fn explain(&self, error: &mlua::Error) -> nacre_object::Error {
        self.vm.explain(error, self.script)
    }

    fn main(&self) -> &Function {
        &self.opened.as_ref().expect("a run that was handed out is open").0
    }

    fn globals(&self) -> &Table {
        &self.opened.as_ref().expect("a run that was handed out is open").1
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.opened = None;
        self.vm.settle();
    }
}
