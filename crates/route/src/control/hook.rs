//! Registers control programs as a kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind, SourceError};

use super::ControlProgram;
use super::interface::CONTROL_INTERFACE;
use crate::program::missing_names;

/// The hook of control programs: which rules an application has.
pub type ControlHook = CompiledHook<ControlProgram>;
/// The control programs that are live on a node, by name.
pub type LiveControls = LivePrograms<ControlProgram>;

impl CompiledProgram for ControlProgram {
    const KIND: ProgramKind = ProgramKind::Control;
    const INTERFACE: &'static Interface = &CONTROL_INTERFACE;

    /// Compiles the program, and runs it on a made-up cluster.
    fn compile_and_try(
        name: &str,
        version: u64,
        source: Arc<str>,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self> {
        let program = Self::compile(name, version, source, clock)?;
        program.rehearse()?;
        Ok(program)
    }

    fn suspicions(source: &str) -> Vec<SourceError> {
        missing_names(source, &CONTROL_INTERFACE, "control programs")
    }
}
