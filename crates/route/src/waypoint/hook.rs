//! Registers waypoints as a kind of program.

use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::Result;
use nacre_program::Interface;
use nacre_registry::{CompiledHook, CompiledProgram, LivePrograms, ProgramKind, SourceError};

use super::WaypointProgram;
use super::interface::WAYPOINT_INTERFACE;
use crate::program::missing_names;

/// The hook of waypoints: what happens to IO on its way.
pub type WaypointHook = CompiledHook<WaypointProgram>;
/// The waypoints that are live on a node, by name.
pub type LiveWaypoints = LivePrograms<WaypointProgram>;

impl CompiledProgram for WaypointProgram {
    const KIND: ProgramKind = ProgramKind::Waypoint;
    const INTERFACE: &'static Interface = &WAYPOINT_INTERFACE;

    /// Compiles the program, and has it encode samples and price made-up IO.
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
        missing_names(source, &WAYPOINT_INTERFACE, "waypoints")
    }
}
