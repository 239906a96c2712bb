//! The folders of a new cluster's targets.

use nacre_object::Result;

use super::folder::{TargetFolder, unwritable};
use super::record::TargetRecord;
use crate::cluster_file::{ClusterFile, RoleName};

/// Makes the folder of every target of a new cluster, each with its identity. Uses the folders that
/// a crashed attempt has left.
///
/// # Errors
/// `Unavailable` if a folder cannot be written.
pub(crate) fn create(cluster: &ClusterFile) -> Result<()> {
    for entry in cluster.with_role(RoleName::Storage) {
        let folder = TargetFolder::of(cluster, entry);
        let Some(identity) = folder.expected.clone() else { continue };
        let stored = TargetRecord::new(identity, false).store(&folder.path);
        stored.map_err(|error| unwritable(&folder.path, &error))?;
    }
    Ok(())
}
