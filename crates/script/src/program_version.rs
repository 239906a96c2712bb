//! `ProgramVersion`: one version of a program of a hook. It runs the program, and adds the program,
//! its version and a line to errors.
//!
//! The kinds of programs that only decide something are built on it: route and control programs,
//! capability programs, and orders of service.

use std::sync::Arc;
use std::thread::LocalKey;

use nacre_clock::Clock;
use nacre_object::{Error, ErrorKind, FaultSite, Result};
use nacre_program::Budget;

use crate::{Library, LoadedVm, ProgramVm, Run, Terms};

/// One version of a program.
#[derive(Debug)]
pub struct ProgramVersion {
    name: String,
    version: u64,
    source: Arc<str>,
    clock: Arc<dyn Clock>,
    /// What one run may use.
    budget: &'static Budget,
}

impl ProgramVersion {
    /// A version of a program. It does not run the source. `name` is `KIND/NAME`; errors name the
    /// program by it.
    pub fn new(
        name: &str,
        version: u64,
        source: impl Into<Arc<str>>,
        clock: &Arc<dyn Clock>,
        budget: &'static Budget,
    ) -> Self {
        let (source, clock) = (source.into(), Arc::clone(clock));
        Self { name: name.to_owned(), version, source, clock, budget }
    }

    /// The number of the version.
    pub fn number(&self) -> u64 {
        self.version
    }

    /// Runs the top level of the source in the thread's VM, and then `body`. The run has a budget
    /// of its own, and `math.random` always starts from the same seed.
    ///
    /// # Errors
    /// `Fault` with the line where the source fails; `Exhausted` if the run exceeds its budget;
    /// errors of `body`.
    pub fn run<L: Library, R>(
        &self,
        vm: &'static LocalKey<ProgramVm<L>>,
        body: impl FnOnce(&Run<'_>, &L) -> Result<R>,
    ) -> Result<R> {
        self.start(vm, |run, library| {
            run.load()?;
            body(run, library)
        })
    }

    /// Like [`ProgramVersion::run`], but leaves it to `body` to run the top level.
    ///
    /// # Errors
    /// As [`ProgramVersion::run`].
    pub fn start<L: Library, R>(
        &self,
        vm: &'static LocalKey<ProgramVm<L>>,
        body: impl FnOnce(&Run<'_>, &L) -> Result<R>,
    ) -> Result<R> {
        let in_vm = |loaded: &mut LoadedVm<L>| {
            let script = loaded.script(&self.name, self.version, self.source.as_bytes())?;
            let terms = Terms { budget: self.budget, clock: &self.clock, seed: 0 };
            let run = loaded.vm.start(&script, &terms)?;
            body(&run, &loaded.library)
        };
        vm.with(|vm| vm.with(in_vm))
    }

    /// Adds a position to an `Invalid` error about the result of a function of the program: the
    /// program, and the line on which it defines the function. Returns any other error unchanged.
    pub fn blame(&self, error: Error, function: &str) -> Error {
        match error.kind() == ErrorKind::Invalid && error.fault().is_none() {
            true => Error::fault_at(self.definition(function), error.message()),
            false => error,
        }
    }

    /// The place in the source at which the program defines a function. It has no line if the source
    /// does not define the function.
    pub fn definition(&self, function: &str) -> FaultSite {
        let is_definition = |line: &str| {
            let line = line.trim_start();
            let rest = line.strip_prefix("function ").unwrap_or(line);
            rest.trim_start().starts_with(function)
        };
        let line = self.source.lines().position(is_definition).map(|line| line as u32 + 1);
        let (program, traceback) = (self.name.clone(), String::new());
        FaultSite { program, version: self.version, line, traceback }
    }
}
