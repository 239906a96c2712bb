//! Registers order programs as a kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind};

use super::OrderProgram;
use super::interface::ORDER_INTERFACE;

/// The hook of order programs: they decide whose request a target serves next.
pub type OrderHook = CompiledHook<OrderProgram>;
/// The orders of service that are live on a node, by name.
pub type LiveOrders = LivePrograms<OrderProgram>;

impl CompiledProgram for OrderProgram {
    const KIND: ProgramKind = ProgramKind::Slo;
    const INTERFACE: &'static Interface = &ORDER_INTERFACE;

    /// Compiles the program, and lets it choose among made-up tenants.
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
