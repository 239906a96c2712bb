//! Makes the folders of a cluster private. An operator or a restored backup may have left them
//! readable to other users of the machine.

use std::path::{Path, PathBuf};

use nacre::{ClusterFile, RoleName};
use nacre_files::{Tightened, tighten_folder};

use super::node_task::tell;

/// Removes the access of other users to the folders of a cluster, and reports it.
pub(super) fn tighten(cluster: &ClusterFile) {
    for folder in folders(cluster).into_iter().filter(|folder| folder.is_dir()) {
        if let Some(text) = said(&folder) {
            tell(&text);
        }
    }
}

/// The cluster's folder and the folders within it. Each folder is listed separately, because a
/// target's folder may be a mounted disk or a symbolic link.
fn folders(cluster: &ClusterFile) -> Vec<PathBuf> {
    let folder = cluster.folder();
    let mut folders = vec![folder.to_owned(), folder.join("run"), folder.join("tls")];
    folders.extend(cluster.with_role(RoleName::Storage).map(|entry| cluster.data(entry)));
    folders
}

/// Makes a folder private. Returns a message for the operator if something changed or failed.
fn said(folder: &Path) -> Option<String> {
    let shown = folder.display();
    match tighten_folder(folder) {
        Ok(Tightened::WasPrivate) => None,
        Ok(Tightened::From(mode)) => {
            Some(format!("{shown} was open to other users (mode {mode:04o}); now it is private"))
        }
        Ok(Tightened::StillOpen(mode)) => Some(format!(
            "other users can read {shown} (mode {mode:04o}): make its owner run `chmod 700 {shown}`"
        )),
        Err(error) => Some(format!("cannot make {shown} private: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_that_other_users_can_read_become_private_and_are_reported_once() {
        let scratch = tempfile::tempdir().unwrap();
        let cluster = ClusterFile::create(scratch.path(), 1).unwrap();
        let open = [scratch.path().to_owned(), scratch.path().join("storage.0")];
        for folder in &open {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        tighten(&cluster);
        for folder in &open {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
            assert_eq!(said(folder), None);
        }
    }
}
