//! The hook of classes.

mod fault_sink;

use std::sync::Arc;

use nacre_calls::LUA_CLASS;
use nacre_class::{
    CLASS_INTERFACE, CheckError, ClassProgram, ClassRuntime, check_program, check_suspicions,
};
use nacre_clock::Clock;
use nacre_object::{ClassName, Result};
use nacre_program::Interface;

use super::{Hook, LiveProgram, SourceError};
use crate::programs::{ProgramId, ProgramKind};

/// Classes: methods of objects.
pub struct ClassHook {
    clock: Arc<dyn Clock>,
    native: Vec<ClassName>,
    runtime: Option<Arc<ClassRuntime>>,
}

impl ClassHook {
    /// The hook for a process that checks class programs but runs none. `native` lists the names of
    /// the native classes that every node has; no program may have one of these names.
    pub fn new(clock: Arc<dyn Clock>, native: Vec<ClassName>) -> Self {
        Self { clock, native, runtime: None }
    }

    /// The hook of a process that runs classes.
    #[must_use]
    pub fn installing_into(self, runtime: Arc<ClassRuntime>) -> Self {
        Self { runtime: Some(runtime), ..self }
    }
}

impl Hook for ClassHook {
    fn kind(&self) -> ProgramKind {
        ProgramKind::Class
    }

    fn interface(&self) -> &'static Interface {
        &CLASS_INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        let name = program.name.as_str();
        if name == LUA_CLASS || self.native.iter().any(|native| native.as_str() == name) {
            return Err(SourceError::new(format!("{name} is a native class")));
        }
        check_program(source, &self.clock).map(|_| ()).map_err(SourceError::from)
    }

    fn suspicions(&self, source: &str) -> Vec<SourceError> {
        check_suspicions(source).into_iter().map(SourceError::from).collect()
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        let runtime =
            self.runtime.as_ref().ok_or_else(|| super::hook::runs_none(ProgramKind::Class))?;
        let name = ClassName::new(&program.id.name)?;
        runtime.install(&ClassProgram::new(name, program.version, Arc::clone(&program.source)))
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        if let Some(runtime) = &self.runtime {
            runtime.uninstall(&ClassName::new(&program.name)?);
        }
        Ok(())
    }
}

impl From<CheckError> for SourceError {
    fn from(CheckError { line, column, message, .. }: CheckError) -> Self {
        Self { line, column, message }
    }
}
