//! Identities for a cluster that an earlier release made without any.

use nacre_embedded::holds_store;
use nacre_object::{Error, Result};

use super::folder::{TargetFolder, store_copies, unwritable};
use super::record::{Found, TargetIdentity, TargetRecord};
use super::unique_id::UniqueId;
use crate::cluster_file::{ClusterFile, Role};

/// A target of a cluster without ids, as its folder is.
#[derive(Debug, Clone)]
struct Unidentified {
    name: String,
    found: Found,
    holds_store: bool,
}

/// What a target gets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Adopted {
    identity: TargetIdentity,
    /// Whether the folder gets a record. A folder that has lost its data gets none, so that the target
    /// is refused.
    gets_record: bool,
}

/// Gives every target of a cluster an identity, unless it has one. Nobody else may change the cluster
/// meanwhile: the caller holds the folder's lock.
///
/// # Errors
/// `Invalid` if the folders belong to different clusters; `Unavailable` if they cannot be read or written.
pub(crate) fn adopt(mut cluster: ClusterFile) -> Result<ClusterFile> {
    if cluster.engine().is_some() || cluster.id().is_some() {
        return Ok(cluster);
    }
    let entries: Vec<_> = cluster.with_role(Role::Storage).cloned().collect();
    let folders: Vec<_> = entries.iter().map(|entry| TargetFolder::of(&cluster, entry)).collect();
    let look = |(entry, folder): (&crate::NodeEntry, &TargetFolder)| {
        let holds_store = holds_store(&folder.path).map_err(|error| {
            Error::unavailable(format!("cannot read {}: {error}", folder.path.display()))
        })?;
        let found = TargetRecord::find(&folder.path);
        Ok(Unidentified { name: entry.name.clone(), found, holds_store })
    };
    let targets: Vec<_> = entries.iter().zip(&folders).map(look).collect::<Result<_>>()?;
    let adopted = plan(&targets, UniqueId::fresh)?;
    for ((folder, target), adopted) in folders.iter().zip(&targets).zip(&adopted) {
        if adopted.gets_record {
            let record = TargetRecord::new(adopted.identity.clone(), target.holds_store);
            record.store(&folder.path).map_err(|error| unwritable(&folder.path, &error))?;
        }
    }
    for Adopted { identity, .. } in &adopted {
        cluster.identify(&identity.target, identity.cluster, identity.id);
    }
    cluster.replace()?;
    store_copies(&cluster);
    Ok(cluster)
}

/// Decides which identity each target gets. Records that are there come from an attempt that crashed, and
/// stay as they are.
///
/// # Errors
/// `Invalid` if the records are of different clusters.
fn plan(targets: &[Unidentified], fresh: impl Fn() -> UniqueId) -> Result<Vec<Adopted>> {
    let own = |target: &Unidentified| match &target.found {
        Found::Record(record) if record.identity.target == target.name => {
            Some(record.identity.clone())
        }
        _ => None,
    };
    let mut clusters = targets.iter().filter_map(own).map(|identity| identity.cluster);
    let cluster = clusters.next().unwrap_or_else(&fresh);
    if clusters.any(|other| other != cluster) {
        return Err(Error::invalid("the folders of the storage targets are of different clusters")
            .hint("their files target.json say which: move the foreign folders away"));
    }
    // Where nothing was ever stored, nothing can have been lost.
    let is_new = !targets.iter().any(|target| target.holds_store);
    let adopted = targets.iter().map(|target| {
        let gets_record = target.found == Found::Nothing && (target.holds_store || is_new);
        let made = || TargetIdentity { cluster, target: target.name.clone(), id: fresh() };
        Adopted { identity: own(target).unwrap_or_else(made), gets_record }
    });
    Ok(adopted.collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn id(number: u32) -> UniqueId {
        format!("{number:032}").parse().unwrap()
    }

    fn identity(cluster: u32, target: &str, of_target: u32) -> TargetIdentity {
        TargetIdentity { cluster: id(cluster), target: target.into(), id: id(of_target) }
    }

    /// Plans for targets `a`, `b`, … with ids 1, 2, …; who gets which identity, and a record.
    fn planned(folders: &[(Found, bool)]) -> Result<Vec<(TargetIdentity, bool)>> {
        let target = |(name, (found, holds_store)): (char, &(Found, bool))| Unidentified {
            name: name.to_string(),
            found: found.clone(),
            holds_store: *holds_store,
        };
        let targets: Vec<_> = ('a'..).zip(folders).map(target).collect();
        let last = Cell::new(0);
        let fresh = || {
            last.set(last.get() + 1);
            id(last.get())
        };
        let adopted = plan(&targets, fresh)?;
        Ok(adopted.into_iter().map(|target| (target.identity, target.gets_record)).collect())
    }

    #[test]
    fn every_folder_that_holds_data_gets_an_identity() {
        let folders = [(Found::Nothing, true), (Found::Nothing, true)];
        let expected = vec![(identity(1, "a", 2), true), (identity(1, "b", 3), true)];
        assert_eq!(planned(&folders).unwrap(), expected);
    }

    #[test]
    fn an_empty_folder_beside_one_with_data_gets_no_record_and_is_refused_later() {
        let folders = [(Found::Nothing, true), (Found::Nothing, false)];
        let expected = vec![(identity(1, "a", 2), true), (identity(1, "b", 3), false)];
        assert_eq!(planned(&folders).unwrap(), expected);
    }

    #[test]
    fn a_cluster_that_never_ran_gets_identities_for_its_empty_folders() {
        let folders = [(Found::Nothing, false), (Found::Nothing, false)];
        assert!(planned(&folders).unwrap().iter().all(|(_, gets_record)| *gets_record));
    }

    #[test]
    fn an_attempt_that_crashed_is_continued_with_its_ids() {
        let record = Found::Record(TargetRecord::new(identity(70, "a", 71), true));
        let folders = [(record, true), (Found::Nothing, true)];
        let expected = vec![(identity(70, "a", 71), false), (identity(70, "b", 1), true)];
        assert_eq!(planned(&folders).unwrap(), expected);
    }

    #[test]
    fn folders_of_different_clusters_are_refused() {
        let record = |cluster, target: &str| {
            Found::Record(TargetRecord::new(identity(cluster, target, cluster), true))
        };
        let folders = [(record(1, "a"), true), (record(2, "b"), true)];
        assert_eq!(planned(&folders).unwrap_err().kind(), nacre_object::ErrorKind::Invalid);
    }
}
