//! `CompiledHook`: the hook for the kinds of programs that a node keeps compiled, by name.
//!
//! For example, balancer policies, file types and capability programs are such kinds. For each
//! kind, an implementation of [`CompiledProgram`] says how its programs are compiled and tried. A
//! node keeps the live programs in [`LivePrograms`] and looks one up for each decision.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;

use super::hook::runs_none;
use super::{Hook, LiveProgram, SourceError};
use crate::programs::{ProgramId, ProgramKind};

/// One version of a program, compiled.
pub trait CompiledProgram: fmt::Debug + Send + Sync + Sized + 'static {
    /// The kind.
    const KIND: ProgramKind;
    /// The interface of programs of this kind.
    const INTERFACE: &'static Interface;
    /// The kind of the programs that programs of this kind name and use, if they do.
    const USED_KIND: Option<ProgramKind> = None;

    /// Compiles a source, and calls once each function that a node would call. `name` is
    /// `KIND/NAME`; errors name the program by it.
    ///
    /// # Errors
    /// `Fault` with the line where the source fails; `Invalid` if a required definition is missing;
    /// `Exhausted` if the source exceeds its budget.
    fn compile_and_try(
        name: &str,
        version: u64,
        source: Arc<str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self>;

    /// Finds suspicious code in a source that can be compiled.
    fn suspicions(_source: &str) -> Vec<SourceError> {
        vec![]
    }

    /// The program that this one names and uses, of the kind [`CompiledProgram::USED_KIND`].
    fn used_program(&self) -> Option<ProgramId> {
        None
    }
}

/// The programs of one kind that are live on a node, by name. Clones share them.
#[derive(Debug)]
pub struct LivePrograms<P>(Arc<RwLock<BTreeMap<String, Arc<P>>>>);

impl<P> Clone for LivePrograms<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> Default for LivePrograms<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<P: CompiledProgram> LivePrograms<P> {
    /// No programs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The live version of a program; `None` if none is live.
    pub fn get(&self, name: &str) -> Option<Arc<P>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Replaces the live version of a program, or drops the program. Runs of the old version
    /// finish.
    fn set(&self, name: &str, program: Option<P>) {
        let mut programs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match program {
            Some(program) => programs.insert(name.to_owned(), Arc::new(program)),
            None => programs.remove(name),
        };
    }
}

/// The hook of a kind whose programs a node keeps compiled.
#[derive(Debug)]
pub struct CompiledHook<P> {
    clock: Arc<dyn Clock>,
    live: Option<LivePrograms<P>>,
}

impl<P: CompiledProgram> CompiledHook<P> {
    /// The hook for a process that checks programs of this kind but runs none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, live: None }
    }

    /// The hook of a process that runs programs of this kind.
    #[must_use]
    pub fn installing_into(self, live: LivePrograms<P>) -> Self {
        Self { live: Some(live), ..self }
    }
}

impl<P: CompiledProgram> Hook for CompiledHook<P> {
    fn kind(&self) -> ProgramKind {
        P::KIND
    }

    fn interface(&self) -> &'static Interface {
        P::INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        P::compile_and_try(&program.to_string(), 0, source.into(), &self.clock)?;
        Ok(())
    }

    fn suspicions(&self, source: &str) -> Vec<SourceError> {
        P::suspicions(source)
    }

    fn used_kind(&self) -> Option<ProgramKind> {
        P::USED_KIND
    }

    /// `None` if the source does not compile. Nodes report the error when they install the source.
    fn used_program(&self, program: &ProgramId, source: &str) -> Option<ProgramId> {
        let compiled = P::compile_and_try(&program.to_string(), 0, source.into(), &self.clock);
        compiled.ok()?.used_program()
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        let live = self.live.as_ref().ok_or_else(|| runs_none(P::KIND))?;
        let (name, source) = (program.id.to_string(), Arc::clone(&program.source));
        let compiled = P::compile_and_try(&name, program.version, source, &self.clock)?;
        live.set(program.id.name.as_str(), Some(compiled));
        Ok(())
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        if let Some(live) = &self.live {
            live.set(program.name.as_str(), None);
        }
        Ok(())
    }
}
