//! Gives up the data of a target whose folder is lost.

use nacre_files::holds_store;
use nacre_object::{Error, Result};

use super::folder::{TargetFolder, store_copies, unwritable};
use super::record::TargetRecord;
use super::unique_id::UniqueId;
use crate::cluster_file::{ClusterFile, RoleName};

/// Gives a target that has lost its data a new id, so that the target can start empty. The caller
/// must hold the lock of the cluster's folder, so that no other process uses the cluster.
///
/// # Errors
/// `Invalid` if the target's folder is in order, or holds data. Nothing is deleted then.
pub(crate) fn forget(mut cluster: ClusterFile, name: &str) -> Result<()> {
    let folder = check_forgettable(&cluster, name)?;
    let Some(mut identity) = folder.expected.clone() else {
        return Err(Error::invalid(format!("cluster.json has no id of {name}"))
            .hint("restore cluster.json from the copy in a target's folder"));
    };
    identity.id = UniqueId::fresh();
    let stored = TargetRecord::new(identity.clone(), false).store(&folder.path);
    stored.map_err(|error| unwritable(&folder.path, &error))?;
    cluster.identify(name, identity.cluster, identity.id);
    cluster.replace()?;
    store_copies(&cluster);
    Ok(())
}

/// The folder of a target whose data an operator may give up.
///
/// # Errors
/// Those of [`forget`].
pub(crate) fn check_forgettable(cluster: &ClusterFile, name: &str) -> Result<TargetFolder> {
    let entry = cluster.node(name)?;
    if !entry.has(RoleName::Storage) || cluster.engine().is_some() {
        return Err(Error::invalid(format!(
            "{name} keeps no objects, so it has no data to forget"
        ))
        .hint("name a storage node of a cluster that keeps its own data"));
    }
    let folder = TargetFolder::of(cluster, entry);
    let path = folder.path.display();
    if folder.judged().is_ok() {
        return Err(Error::invalid(format!("the folder of {name}, {path}, is in order"))
            .hint("forget only a target that `nacre status` shows as refused"));
    }
    let holds_store = holds_store(&folder.path).map_err(|error| {
        Error::unavailable(format!("cannot read {path}: {error}"))
            .hint("check that the disk is mounted and readable")
    })?;
    if holds_store {
        return Err(Error::invalid(format!("{path} holds data, which would be lost"))
            .hint(format!("move it away first: mv {path} ELSEWHERE")));
    }
    Ok(folder)
}
