//! `CapabilityHook`: capability programs as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_program::Interface;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind, SourceError};

use super::interface::CAPABILITY_INTERFACE;
use super::{CapabilityProgram, LiveCapabilityPrograms};

/// Capability programs: who caches a shared resource, and how long.
#[derive(Debug)]
pub struct CapabilityHook {
    clock: Arc<dyn Clock>,
    live: Option<LiveCapabilityPrograms>,
}

impl CapabilityHook {
    /// The hook of a process that checks capability programs and runs none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, live: None }
    }

    /// The hook of a process that runs capability programs.
    #[must_use]
    pub fn installing_into(self, live: LiveCapabilityPrograms) -> Self {
        Self { live: Some(live), ..self }
    }

    /// Compiles a source, and asks it about clients that do not exist.
    fn tried(&self, name: &str, version: u64, source: Arc<str>) -> Result<CapabilityProgram> {
        let program = CapabilityProgram::compile(name, version, source, &self.clock)?;
        program.rehearse()?;
        Ok(program)
    }
}

impl Hook for CapabilityHook {
    fn kind(&self) -> ProgramKind {
        ProgramKind::Capability
    }

    fn interface(&self) -> &'static Interface {
        &CAPABILITY_INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        self.tried(&program.to_string(), 0, source.into())?;
        Ok(())
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        let live = self
            .live
            .as_ref()
            .ok_or_else(|| Error::unsupported("this process runs no capability programs"))?;
        let source = Arc::clone(&program.source);
        let compiled = self.tried(&program.id.to_string(), program.version, source)?;
        live.insert(program.id.name.clone(), compiled);
        Ok(())
    }

    fn uninstall(&self, program: &ProgramId) -> Result<()> {
        if let Some(live) = &self.live {
            live.remove(&program.name);
        }
        Ok(())
    }
}
