//! `Hook`: one kind of program.

use nacre_object::{Error, Result};
use nacre_program::Interface;

use super::{LiveProgram, SourceError};
use crate::programs::{ProgramId, ProgramKind};

/// A kind of program: how it is checked, and how a node makes it live.
pub trait Hook: Send + Sync {
    /// The kind.
    fn kind(&self) -> ProgramKind;

    /// The interface of programs of this kind.
    fn interface(&self) -> &'static Interface;

    /// Compiles and dry-runs a source. [`Programs::put`](crate::Programs::put) calls this before it
    /// stores anything.
    ///
    /// # Errors
    /// The first mistake of the source.
    fn check(&self, program: &ProgramId, source: &str) -> Result<(), SourceError>;

    /// Finds suspicious code in a source that passes the check. The source may be put all the same.
    fn suspicions(&self, _source: &str) -> Vec<SourceError> {
        vec![]
    }

    /// The kind of the programs that programs of this kind name and use, if they do.
    fn used_kind(&self) -> Option<ProgramKind> {
        None
    }

    /// The program that this source names and uses. It must be active before the source is.
    fn used_program(&self, _program: &ProgramId, _source: &str) -> Option<ProgramId> {
        None
    }

    /// Makes a program live on this node in place of any other version, after a probe call. If the
    /// probe call fails, the other version stays live. This method may block. The node runs only
    /// one call of it at a time.
    ///
    /// # Errors
    /// The reason why the program cannot become live. `Unavailable` means that another attempt may
    /// succeed.
    fn install(&self, program: &LiveProgram) -> Result<()> {
        Err(runs_none(program.id.kind))
    }

    /// Drops a program. Succeeds if the program is not live.
    ///
    /// # Errors
    /// `Unavailable` if another attempt may succeed.
    fn uninstall(&self, _program: &ProgramId) -> Result<()> {
        Ok(())
    }
}

/// The error of a process that does not run programs of this kind.
pub(super) fn runs_none(kind: ProgramKind) -> Error {
    Error::unsupported(format!("this process runs no programs of kind {kind}"))
        .hint("run the program on a node")
}
