//! `Running`: one run of a policy's script. Its errors name lines of the policy's source.

use std::sync::Arc;

use mlua::{Function, IntoLuaMulti, Lua, Value};
use nacre_clock::Clock;
use nacre_object::{Error, FaultSite, Result};
use nacre_program::Budget;
use nacre_script::{LoadedVm, ProgramVm, Run, Terms};

use super::hook_name::HookName;
use super::library::PolicyLibrary;
use super::mapped_script::MappedScript;

thread_local! {
    static VM: ProgramVm<PolicyLibrary> = const { ProgramVm::new() };
}

/// What a run is made from.
#[derive(Clone, Copy)]
pub(crate) struct RunTerms<'a> {
    /// The script.
    pub script: &'a MappedScript,
    /// The policy's source, in which the lines of hooks are looked up.
    pub source: &'a str,
    /// What it may use.
    pub budget: &'a Budget,
    /// By which clock its time is measured.
    pub clock: &'a Arc<dyn Clock>,
    /// What `math.random` starts from.
    pub seed: u64,
}

/// A run that has begun.
pub(crate) struct Running<'a> {
    run: Run<'a>,
    terms: &'a RunTerms<'a>,
    /// The data that the policy's calls read and write besides its globals.
    pub library: &'a PolicyLibrary,
}

/// Begins a run and passes it to `body`, which executes the chunk.
pub(crate) fn run<R>(
    terms: &RunTerms<'_>,
    body: impl FnOnce(&Running<'_>) -> Result<R>,
) -> Result<R> {
    let begin = |loaded: &mut LoadedVm<PolicyLibrary>| {
        let LoadedVm { vm, library, .. } = loaded;
        let RunTerms { budget, clock, seed, .. } = *terms;
        let run = vm.start(terms.script.script(), &Terms { budget, clock, seed })?;
        body(&Running { run, terms, library })
    };
    VM.with(|vm| vm.with(begin))
}

impl Running<'_> {
    /// The VM.
    pub fn lua(&self) -> &Lua {
        self.run.lua()
    }

    /// Executes the chunk, and returns the first value that it returned.
    pub fn load(&self) -> Result<Value> {
        self.call(self.run.chunk(), ())
    }

    /// Calls a function for its first result.
    pub fn call(&self, function: &Function, arguments: impl IntoLuaMulti) -> Result<Value> {
        self.run.call_for(function, arguments).map_err(|error| self.terms.script.mapped(error))
    }

    /// Gives the policy a global.
    pub fn set(&self, name: &str, value: impl mlua::IntoLua) -> Result<()> {
        self.explained(self.run.globals().raw_set(name, value))
    }

    /// A global, set by the policy or before the run.
    pub fn global(&self, name: &str) -> Result<Value> {
        self.explained(self.run.globals().raw_get(name))
    }

    /// Turns an error of the VM into an error of the policy.
    pub fn explained<R>(&self, result: mlua::Result<R>) -> Result<R> {
        result.map_err(|error| self.terms.script.mapped(self.run.explain(&error)))
    }

    /// The fault of a hook that returned an invalid result.
    pub fn fault(&self, hook: HookName, message: impl Into<String>) -> Error {
        Error::fault_at(self.site_at(hook.line_in(self.terms.source)), message)
    }

    /// The policy's source.
    pub fn source(&self) -> &str {
        self.terms.source
    }

    /// A line of the policy, for an error.
    pub fn site_at(&self, line: Option<u32>) -> FaultSite {
        let script = self.terms.script.script();
        FaultSite {
            program: script.name().to_owned(),
            version: script.version(),
            line,
            traceback: String::new(),
        }
    }
}
