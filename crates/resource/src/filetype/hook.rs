//! `FileTypeHook`: file types as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_program::Interface;
use nacre_registry::{Hook, LiveProgram, ProgramId, ProgramKind, SourceError};

use super::interface::FILE_TYPE_INTERFACE;
use super::{FileType, LiveFileTypes, Survival};

/// File types: the state and methods of shared resources.
#[derive(Debug)]
pub struct FileTypeHook {
    clock: Arc<dyn Clock>,
    live: Option<LiveFileTypes>,
}

impl FileTypeHook {
    /// The hook of a process that checks file types and runs none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, live: None }
    }

    /// The hook of a process that runs file types.
    #[must_use]
    pub fn installing_into(self, live: LiveFileTypes) -> Self {
        Self { live: Some(live), ..self }
    }

    /// Compiles a source, makes the state of a new resource, and recovers it if the file type does that.
    fn tried(&self, name: &str, version: u64, source: Arc<str>) -> Result<FileType> {
        let compiled = FileType::compile(name, version, source, &self.clock)?;
        let state = compiled.initial(&self.clock)?;
        if compiled.survival() == Survival::Recovered {
            compiled.recovered(&state, self.clock.now_micros(), &self.clock)?;
        }
        Ok(compiled)
    }
}

impl Hook for FileTypeHook {
    fn kind(&self) -> ProgramKind {
        ProgramKind::FileType
    }

    fn interface(&self) -> &'static Interface {
        &FILE_TYPE_INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        self.tried(&program.to_string(), 0, source.into())?;
        Ok(())
    }

    fn install(&self, program: &LiveProgram) -> Result<()> {
        let live = self
            .live
            .as_ref()
            .ok_or_else(|| Error::unsupported("this process runs no file types"))?;
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
