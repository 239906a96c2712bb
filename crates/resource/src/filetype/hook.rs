//! File types as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramId, ProgramKind};

use super::interface::FILE_TYPE_INTERFACE;
use super::{FileType, Survival, native_type};

/// The hook of file types, which define the state and methods of shared resources.
pub type FileTypeHook = CompiledHook<FileType>;
/// The file types that are live on a node, by name.
pub type LiveFileTypes = LivePrograms<FileType>;

impl CompiledProgram for FileType {
    const KIND: ProgramKind = ProgramKind::FileType;
    const INTERFACE: &'static Interface = &FILE_TYPE_INTERFACE;
    const USED_KIND: Option<ProgramKind> = Some(ProgramKind::Capability);

    /// Compiles a file type and tries it. Runs its `init`, and also its recovery function if the
    /// type has one ([`Survival::Recovered`]).
    fn compile_and_try(
        name: &str,
        version: u64,
        source: Arc<str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        if native_type(name.rsplit('/').next().unwrap_or(name)).is_some() {
            return Err(
                Error::invalid(format!("{name} is compiled into nacre")).hint("use another name")
            );
        }
        let compiled = Self::compile(name, version, source, clock)?;
        let state = compiled.initial(clock)?;
        if compiled.survival() == Survival::Recovered {
            compiled.recovered(&state, clock.now_micros(), clock)?;
        }
        Ok(compiled)
    }

    /// The capability program.
    fn used_program(&self) -> Option<ProgramId> {
        let program = self.locking()?.program.clone()?;
        Some(ProgramId::new(ProgramKind::Capability, program))
    }
}
