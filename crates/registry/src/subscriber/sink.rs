//! Where a node puts its programs.

use std::sync::Arc;

use nacre_object::Result;
use nacre_script::Digest;

use crate::programs::ProgramId;

/// A program to be made live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveProgram {
    /// The program.
    pub id: ProgramId,
    /// Its version.
    pub version: u64,
    /// The digest of its source, which has been verified.
    pub digest: Digest,
    /// Its source.
    pub source: Arc<str>,
}

/// What runs a node's programs. Called from a thread that may block; one call at a time.
///
/// Map programs do not pass here: they are kept, and run, in the object of their map.
pub trait ProgramSink: Send + Sync {
    /// Makes a program live in place of any other version of it. If it fails, that other version
    /// stays.
    ///
    /// # Errors
    /// Why the program cannot be made live. `Unavailable` if it is worth trying again.
    fn install(&self, program: &LiveProgram) -> Result<()>;

    /// Drops a program; one that is not live is no error.
    ///
    /// # Errors
    /// `Unavailable` if it is worth trying again.
    fn uninstall(&self, program: &ProgramId) -> Result<()>;
}
