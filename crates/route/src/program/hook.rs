//! Registers route programs as a kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind, SourceError};
use nacre_script::{FreeName, Script};

use super::RouteProgram;
use super::interface::ROUTE_INTERFACE;

/// The hook of route programs: where a rule sends an IO.
pub type RouteHook = CompiledHook<RouteProgram>;
/// The route programs that are live on a node, by name.
pub type LiveRoutes = LivePrograms<RouteProgram>;

impl CompiledProgram for RouteProgram {
    const KIND: ProgramKind = ProgramKind::Route;
    const INTERFACE: &'static Interface = &ROUTE_INTERFACE;

    /// Compiles the program, and lets it decide about made-up IO.
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
        missing_names(source, &ROUTE_INTERFACE, "route programs")
    }
}

/// The names that a program uses and that are neither in its interface nor defined by it.
pub(crate) fn missing_names(source: &str, interface: &Interface, kind: &str) -> Vec<SourceError> {
    let Ok(script) = Script::compile("program", 0, source.as_bytes()) else { return vec![] };
    let missing = script.names_missing_in(interface).into_iter();
    let error = |name: &FreeName| SourceError {
        line: Some(name.line),
        column: Some(name.column),
        message: format!("`{}` is not available in {kind}, and not defined here", name.path()),
    };
    missing.map(error).collect()
}
