//! Finds programs whose source is lost because an operator gave up the storage target that kept it.
//!
//! No node can run such a program. Every call of it fails with `unavailable` until somebody puts
//! the same source again.

use nacre_log::{BRADOS_CLASS, PROGRAM_CLASS};
use nacre_object::{ClassName, ErrorKind, Result};
use nacre_program::Digest;
use nacre_registry::{ProgramId, ProgramInfo, ProgramKind};

use crate::cluster::{Cluster, LOG_BRADOS_SOURCE, LOG_PROGRAM_SOURCE, OWN_SOURCES};

impl Cluster {
    /// Puts lost sources again that this release contains. Returns the active programs whose source
    /// stays lost, each with its active version. If the map `programs` is empty, also puts the
    /// classes of existing logs again.
    ///
    /// # Errors
    /// `Unavailable` if a target that may keep a source does not answer.
    pub async fn lost_sources(&self) -> Result<Vec<(ProgramId, u64)>> {
        let mut lost = Vec::new();
        let known = self.programs().list(None).await?;
        if known.is_empty() {
            self.restore_log_classes().await?;
        }
        for program in known {
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

    /// Puts the classes of existing logs again. They are missing if the map `programs` was lost but
    /// the views of the logs were not.
    async fn restore_log_classes(&self) -> Result<()> {
        for (class, source) in
            [(PROGRAM_CLASS, LOG_PROGRAM_SOURCE), (BRADOS_CLASS, LOG_BRADOS_SOURCE)]
        {
            let class = ClassName::new(class)?;
            if !self.logs_of_class(&class).await?.is_empty() {
                let program = ProgramId::new(ProgramKind::Class, class.as_str().parse()?);
                self.install_unless_there(&program, source).await?;
            }
        }
        Ok(())
    }
}

/// The source of a program's active version, if this release contains it. Returns `None` if the
/// active version is not the latest, because putting its source would make a new version.
fn own_source(program: &ProgramInfo, active: u64) -> Option<&'static str> {
    let latest = program.versions.last().filter(|latest| latest.version == active)?;
    OWN_SOURCES.iter().copied().find(|source| Digest::of(source) == latest.digest)
}
