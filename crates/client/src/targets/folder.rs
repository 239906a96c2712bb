//! The folder of one target: what is in it, whether the target may serve from it, and what an
//! operator must do if not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nacre_files::holds_store;
use nacre_object::{Error, Result};

use super::record::{self, Found, TargetIdentity, TargetRecord};
use super::refusal::{Refusal, judge};
use crate::cluster_file::{
    CLUSTER_FILE, ClusterFile, NodeEntry, RoleName, damage_of_file, storage_targets_of,
};

/// The prefix of the folder names of targets that have no identity yet.
const TARGET_PREFIX: &str = "storage.";

/// The folder of one storage target, and the identity that its cluster expects there.
#[derive(Debug, Clone)]
pub struct TargetFolder {
    name: String,
    pub(super) path: PathBuf,
    /// None where another system keeps the data.
    pub(super) expected: Option<TargetIdentity>,
}

impl TargetFolder {
    /// The folder of a cluster's target.
    pub fn of(cluster: &ClusterFile, entry: &NodeEntry) -> Self {
        let (name, path) = (entry.name.clone(), cluster.data(entry));
        let identity = |(cluster, id)| TargetIdentity { cluster, target: entry.name.clone(), id };
        let expected = cluster.id().zip(entry.id).map(identity);
        Self { name, path, expected }
    }

    /// Returns why the target must not serve from this folder, and what to do. `None` if the target
    /// may serve.
    pub fn refusal(&self) -> Option<Error> {
        self.judged().err().map(|refusal| self.explain(refusal))
    }

    /// Records that the engine has opened the folder. From now on the folder must hold a store.
    ///
    /// # Errors
    /// `Unavailable` if the record cannot be written.
    pub fn opened(&self, cluster: &ClusterFile) -> Result<()> {
        if let (Found::Record(found), Some(expected)) =
            (TargetRecord::find(&self.path), &self.expected)
        {
            let record = TargetRecord::new(expected.clone(), true);
            let stored = match found.has_data {
                true => record.mend(&self.path),
                false => record.store(&self.path),
            };
            stored.map_err(|error| unwritable(&self.path, &error))?;
            // A failure does not matter: only an operator needs the copy, after `cluster.json` is
            // lost.
            let _ = store_copy(cluster, &self.path);
        }
        Ok(())
    }

    pub(super) fn judged(&self) -> Result<(), Refusal> {
        let unreadable = |error: io::Error| Refusal::Unreadable(error.to_string());
        let holds_store = holds_store(&self.path).map_err(unreadable)?;
        judge(self.expected.as_ref(), &TargetRecord::find(&self.path), holds_store)
    }

    fn explain(&self, refusal: Refusal) -> Error {
        let (name, path) = (&self.name, self.path.display());
        let forget =
            format!("to give up its data, stop the cluster and run `nacre node forget {name}`");
        let (reason, hint) = match refusal {
            Refusal::Empty => (
                format!("its folder {path} holds no data, but the target was made before"),
                format!("restore the folder or mount its disk; {forget}"),
            ),
            Refusal::OtherCluster { target } => (
                format!("its folder {path} holds {target} of another cluster"),
                format!(
                    "move that folder away and restore the right one; if all targets say so, {CLUSTER_FILE} is of \
                     another cluster: {}; {forget}",
                    restore_cluster_file(self.path.parent().unwrap_or(&self.path))
                ),
            ),
            Refusal::OtherTarget { target } => (
                format!("its folder {path} holds {target} of this cluster"),
                "move each folder to the place that has its target's name".to_owned(),
            ),
            Refusal::Forgotten => (
                format!("its folder {path} holds a former {name}, which was forgotten"),
                "move that folder away, and restore the one that took its place".to_owned(),
            ),
            Refusal::Unidentified => (
                format!("its folder {path} holds data, but no {}", record::FILE_NAME),
                format!("move that folder away and restore the right one{}", self.restored()),
            ),
            Refusal::Unreadable(cause) => (
                format!("the identity of its folder {path} cannot be read: {cause}"),
                format!("make the folder readable, or restore it{}", self.restored()),
            ),
        };
        Error::unavailable(format!("{name} does not serve: {reason}")).hint(hint)
    }

    /// Tells an operator who knows that this is the right folder how to write the identity again.
    fn restored(&self) -> String {
        let record = self.expected.clone().map(|identity| TargetRecord::new(identity, true));
        match record.and_then(|record| record.to_text().ok()) {
            Some(text) => {
                let path = self.path.join(record::FILE_NAME);
                format!("; if it is the right one, write this into {}: {text}", path.display())
            }
            None => String::new(),
        }
    }
}

/// Stores a copy of `cluster.json` in a target's folder, unless the folder has an equal copy.
///
/// # Errors
/// Any error of the operating system.
fn store_copy(cluster: &ClusterFile, folder: &Path) -> io::Result<()> {
    let (text, copy) = (cluster.to_text()?, folder.join(CLUSTER_FILE));
    match fs::read(&copy) {
        Ok(stored) if stored == text => Ok(()),
        _ => nacre_files::replace(&copy, &text),
    }
}

/// Stores the copies of a cluster's file in all folders that belong to its targets.
pub(super) fn store_copies(cluster: &ClusterFile) {
    for entry in cluster.with_role(RoleName::Storage) {
        let folder = TargetFolder::of(cluster, entry);
        if folder.judged().is_ok() {
            // If this fails, the node stores the copy at its next start.
            let _ = store_copy(cluster, &folder.path);
        }
    }
}

/// Refuses a cluster's folder that has no `cluster.json` but has targets with data. A new cluster
/// there would not know these targets.
///
/// # Errors
/// `Corrupt`, with the targets that are there and how to restore the file.
pub(crate) fn refuse_targets_without_cluster(folder: &Path) -> Result<()> {
    let targets = targets_in(folder);
    if targets.is_empty() {
        return Ok(());
    }
    let hint = restore_cluster_file(folder);
    let (folder, targets) = (folder.display(), targets.join(", "));
    let text = format!("{folder} holds storage targets ({targets}), but no {CLUSTER_FILE}");
    Err(Error::corrupt(text).hint(format!("{hint}; or name another folder with --cluster DIR")))
}

/// Refuses a `cluster.json` that omits a storage target, because placement would then look for
/// objects on the wrong targets. The targets' folders, and the copies of the file in them, say
/// which targets exist.
///
/// # Errors
/// `Corrupt`, with the target and how to restore the file.
pub(crate) fn refuse_left_out_targets(cluster: &ClusterFile) -> Result<()> {
    let Some(id) = cluster.id() else { return Ok(()) };
    let is_known =
        |name: &String| cluster.with_role(RoleName::Storage).any(|node| node.name == *name);
    for target in targets_in(cluster.folder()) {
        let folder = cluster.folder().join(&target);
        let own = match TargetRecord::find(&folder) {
            Found::Record(record) if record.identity.cluster == id => Some(record.identity.target),
            _ => None,
        };
        let named = storage_targets_of(&folder, id);
        if let Some(missing) = own.into_iter().chain(named).find(|name| !is_known(name)) {
            let file = cluster.folder().join(CLUSTER_FILE);
            let copy = folder.join(CLUSTER_FILE);
            let text = format!("{} leaves out the storage target {missing}", file.display());
            return Err(Error::corrupt(text).hint(format!(
                "restore the file: cp {} {}",
                copy.display(),
                file.display()
            )));
        }
    }
    Ok(())
}

/// The damaged files that the cluster keeps in a target's folder, each with the reason.
pub fn damaged_target_files(folder: &Path) -> Vec<(&'static str, String)> {
    let mut damages = TargetRecord::damages(folder);
    if let Some(problem) = damage_of_file(folder) {
        damages.push((CLUSTER_FILE, problem));
    }
    damages
}

/// Says how to restore a `cluster.json` that is missing or damaged.
pub(crate) fn restore_cluster_file(folder: &Path) -> String {
    let copies = targets_in(folder).into_iter().map(|name| folder.join(name).join(CLUSTER_FILE));
    let file = folder.join(CLUSTER_FILE);
    match copies.into_iter().find(|copy| copy.is_file()) {
        Some(copy) => format!("restore the file: cp {} {}", copy.display(), file.display()),
        None => format!("restore {} from a backup", file.display()),
    }
}

/// The names of the folders in a folder that hold a target's data.
fn targets_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_target = |name: &String| {
        let path = folder.join(name);
        let is_named =
            name.starts_with(TARGET_PREFIX) || TargetRecord::find(&path) != Found::Nothing;
        // A folder that cannot be read may hold data.
        is_named && path.is_dir() && holds_store(&path).unwrap_or(true)
    };
    let mut targets: Vec<_> = names.filter(is_target).collect();
    targets.sort();
    targets
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot write {}: {error}", path.display())).hint(
        "check that the disk is mounted, and that the user who runs this command may write to it",
    )
}
