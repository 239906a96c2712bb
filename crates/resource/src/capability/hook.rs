//! Capability programs as one kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind};

use super::CapabilityProgram;
use super::interface::CAPABILITY_INTERFACE;

/// The hook of capability programs. They decide which client holds a capability and for how long.
pub type CapabilityHook = CompiledHook<CapabilityProgram>;
/// The capability programs that are live on a node, by name.
pub type LiveCapabilityPrograms = LivePrograms<CapabilityProgram>;

impl CompiledProgram for CapabilityProgram {
    const KIND: ProgramKind = ProgramKind::Capability;
    const INTERFACE: &'static Interface = &CAPABILITY_INTERFACE;

    /// Compiles a program, and tries its decisions on made-up clients.
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
}
