//! Programs whose source is lost: the storage target that kept the source was forgotten.
//!
//! No node can make such a program live, so every call of it fails with `unavailable` until the same source
//! is put again.

use nacre_object::{ErrorKind, Result};
use nacre_program::Digest;
use nacre_registry::{ProgramId, ProgramInfo};

use crate::cluster::{Cluster, LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE};

/// The sources that this release brings along.
const OWN_SOURCES: [&str; 2] = [LOG_PROGRAM_SOURCE, LOG_BRADOS_SOURCE];

impl Cluster {
    /// The active programs whose source is lost, each with its active version. A lost source that this
    /// release brings along is put again instead.
    ///
    /// # Errors
    /// `Unavailable` if a target that may keep a source does not serve.
    pub async fn lost_sources(&self) -> Result<Vec<(ProgramId, u64)>> {
        let mut lost = Vec::new();
        for program in self.programs().list(None).await? {
            let Some(active) = program.active else { continue };
            match self.programs().show(&program.id, Some(active)).await {
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                _ => continue,
            }
            match own_source(&program, active) {
                Some(source) => drop(self.programs().put(&program.id, source).await?),
                None => lost.push((program.id, active)),
            }
        }
        Ok(lost)
    }
}

/// The source of a program's active version, if this release brings it along. Only the latest version can be
/// put again under its number.
fn own_source(program: &ProgramInfo, active: u64) -> Option<&'static str> {
    let latest = program.versions.last().filter(|latest| latest.version == active)?;
    OWN_SOURCES.into_iter().find(|source| Digest::of(source) == latest.digest)
}
