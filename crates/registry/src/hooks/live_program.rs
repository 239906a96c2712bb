//! A program as a node makes it live.

use std::sync::Arc;

use nacre_program::Digest;

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
