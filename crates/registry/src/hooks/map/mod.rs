//! The hook of map programs. A map's object contains the map's program and runs it, so no node
//! installs a map program.

mod interface;
mod policy;

use nacre_object::Result;
use nacre_program::Interface;
use nacre_script::{CompileError, FreeName, Script};

use super::{Hook, SourceError};
use crate::maps::PROGRAMS_MAP;
use crate::programs::{ProgramId, ProgramKind};

pub(crate) use policy::run_policy;

use interface::MAP_INTERFACE;

/// The hook of map programs. A map program decides about the commits of the map that has the
/// program's name.
#[derive(Debug, Clone, Copy)]
pub struct MapHook;

impl Hook for MapHook {
    fn kind(&self) -> ProgramKind {
        ProgramKind::Map
    }

    fn interface(&self) -> &'static Interface {
        &MAP_INTERFACE
    }

    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError> {
        if program.name.as_str() == PROGRAMS_MAP {
            // A program there that fails could not be rolled back.
            return Err(SourceError::new("the map `programs` cannot have a program of its own"));
        }
        let script = Script::compile(&program.to_string(), 0, source.as_bytes())?;
        Ok(policy::dry_run(&script)?)
    }

    fn suspicions(&self, source: &str) -> Vec<SourceError> {
        let Ok(script) = Script::compile("program", 0, source.as_bytes()) else { return vec![] };
        script.names_missing_in(&MAP_INTERFACE).into_iter().map(not_available).collect()
    }
}

fn not_available(name: &FreeName) -> SourceError {
    SourceError {
        line: Some(name.line),
        column: Some(name.column),
        message: format!(
            "`{}` is not available in map programs, and not defined here",
            name.path()
        ),
    }
}

impl From<CompileError> for SourceError {
    fn from(error: CompileError) -> Self {
        Self { line: Some(error.line), column: error.column, message: error.message }
    }
}
