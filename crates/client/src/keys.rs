//! The keys in a cluster's folder: the keys of the authority, which signs identities, and the keys
//! in the nodes' identities.
//!
//! | file of `tls/` | holds |
//! | --- | --- |
//! | `authority.key`, `authority.pem` | the authority's key and certificate |
//! | `node.NAME.json` | a node's identity |
//! | `admin.json` | the first administrator's identity file |
//!
//! Only the owner can read these files (mode 0600).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nacre_object::{EntityName, Error, ErrorKind, NodeName, Result};
use nacre_wire::{Authority, Identity, Usage};
use serde_json::json;

use crate::cluster_file::{ClusterFile, NodeEntry};

/// The folder of keys within that of the cluster.
const FOLDER: &str = "tls";
/// The first administrator.
const ADMIN: &str = "admin";
const ADMIN_FILE: &str = "admin.json";

/// A cluster's keys.
#[derive(Debug, Clone)]
pub struct Keys {
    folder: PathBuf,
}

impl Keys {
    /// The keys of a cluster. A cluster that listens only on Unix sockets has none.
    pub fn of(cluster: &ClusterFile) -> Self {
        Self { folder: cluster.folder().join(FOLDER) }
    }

    /// Whether there are any.
    pub fn exist(&self) -> bool {
        self.folder.join("authority.key").exists()
    }

    /// Makes an authority, an identity for every node, and an identity for the first administrator.
    /// Returns the path of the administrator's identity file.
    ///
    /// # Errors
    /// `Exists` if there are keys already; `Unavailable` if the folder cannot be written.
    pub fn create(cluster: &ClusterFile) -> Result<PathBuf> {
        let keys = Self::of(cluster);
        // Write the keys into a temporary folder, and rename it once they are complete.
        let fresh =
            Self { folder: keys.folder.with_extension(format!("{}.new", std::process::id())) };
        let made = fresh.fill(cluster).and_then(|()| {
            fs::rename(&fresh.folder, &keys.folder).map_err(|error| match error.kind() {
                io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                    Error::exists(format!("there are keys in {} already", keys.folder.display()))
                        .hint("move them away if no cluster uses them")
                }
                _ => unusable(&keys.folder, &error),
            })
        });
        if made.is_err() {
            let _ = fs::remove_dir_all(&fresh.folder);
        }
        made.map(|()| keys.folder.join(ADMIN_FILE))
    }

    fn fill(&self, cluster: &ClusterFile) -> Result<()> {
        nacre_files::create_folder(&self.folder).map_err(|error| unusable(&self.folder, &error))?;
        let (authority, key) = Authority::create()?;
        write_private(&self.folder.join("authority.key"), key.as_bytes())?;
        let certificate = self.folder.join("authority.pem");
        write_private(&certificate, authority.certificate_pem().as_bytes())?;
        for node in cluster.nodes() {
            let name = EntityName::of_node(&NodeName::new(&node.name)?)?;
            let identity =
                authority.issue_node(&name, &hosts_of(cluster, node)?)?.to_json().to_string();
            write_private(&self.node_file(&node.name), identity.as_bytes())?;
        }
        self.issue(cluster, &EntityName::new(ADMIN)?, &self.folder.join(ADMIN_FILE)).map(drop)
    }

    /// Makes an identity for an entity and writes its file. With the file, a client can reach the
    /// cluster from any computer. The identity alone gives the entity no rights.
    ///
    /// # Errors
    /// `NotFound` if the folder has no authority; `Exists` if the file exists; `Unavailable` if it
    /// cannot be written.
    pub fn issue(&self, cluster: &ClusterFile, entity: &EntityName, to: &Path) -> Result<Identity> {
        let read = |name: &str| {
            fs::read_to_string(self.folder.join(name)).map_err(|error| {
                Error::not_found(format!("no authority at {}: {error}", self.folder.display()))
                    .hint("use the folder of a cluster made by `nacre init --listen HOST:PORT`")
            })
        };
        let authority = Authority::load(&read("authority.key")?, read("authority.pem")?)?;
        let identity = authority.issue(entity, Usage::Client)?;
        let mut file = identity.to_json();
        file["nodes"] = json!(cluster.remote_nodes()?);
        if let Some(engine) = cluster.remote_engine() {
            file["engine"] = json!(engine);
        }
        write_private(to, format!("{file:#}\n").as_bytes())?;
        Ok(identity)
    }

    /// A node's identity.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if the file makes no sense.
    pub fn node(&self, node: &str) -> Result<Identity> {
        read_identity(&self.node_file(node))
    }

    /// The first administrator's identity, if its file is here.
    ///
    /// # Errors
    /// `Invalid` if the file is malformed.
    pub fn admin(&self) -> Result<Option<Identity>> {
        match read_identity(&self.folder.join(ADMIN_FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn node_file(&self, node: &str) -> PathBuf {
        self.folder.join(format!("node.{node}.json"))
    }
}

/// The names by which clients may reach a node: the host in the cluster's file, this computer's
/// name, and the node's own name.
fn hosts_of(cluster: &ClusterFile, node: &NodeEntry) -> Result<Vec<String>> {
    let listened = cluster.address(node)?.and_then(|address| Some(address.host()?.to_owned()));
    let machine = rustix::system::uname().nodename().to_str().ok().map(str::to_owned);
    Ok(listened.into_iter().chain(machine).chain([node.name.clone()]).collect())
}

fn read_identity(path: &Path) -> Result<Identity> {
    let text = fs::read(path).map_err(|error| {
        let text = format!("no identity at {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Error::not_found(text)
                .hint("make a cluster with keys by `nacre init --listen HOST:PORT`"),
            io::ErrorKind::PermissionDenied => {
                Error::denied(text).hint("run the command as the user who runs the cluster")
            }
            _ => Error::unavailable(text)
                .hint("make the file readable for the user who runs this command"),
        }
    })?;
    Identity::parse(&text)
}

/// Writes a file that only its owner can read. Fails if the file exists already.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let file = nacre_files::open_options().write(true).create_new(true).open(path);
    match file.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all())) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(Error::exists(format!("{} already exists", path.display()))
                .hint("move it away, or name another file with --out FILE"))
        }
        Err(error) => {
            // Remove the incomplete file, so that the caller can try again.
            let _ = fs::remove_file(path);
            Err(unusable(path, &error))
        }
    }
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::unavailable(format!("cannot write {}: {error}", path.display()))
        .hint("choose a writable folder")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::cluster_file::Layout;

    /// A cluster that needs keys, and its folder.
    fn drafted() -> (TempDir, ClusterFile) {
        let folder = TempDir::new().unwrap();
        let addresses = vec!["localhost:1".to_owned(), "localhost:2".to_owned()];
        let layout = Layout { engine: None, storage: 1, metadata: 1, addresses, sockets: true };
        let cluster = ClusterFile::draft(folder.path(), &layout).unwrap();
        (folder, cluster)
    }

    #[test]
    fn keys_are_made_completely_or_not_at_all_and_never_replace_others() {
        let (folder, cluster) = drafted();
        let left = || fs::read_dir(folder.path()).unwrap().count();
        fs::create_dir(folder.path().join("tls")).unwrap();
        fs::write(folder.path().join("tls/authority.key"), "somebody's").unwrap();
        assert_eq!(Keys::create(&cluster).unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(
            (left(), fs::read(folder.path().join("tls/authority.key")).unwrap().len()),
            (1, 10)
        );
        fs::remove_dir_all(folder.path().join("tls")).unwrap();
        let admin = Keys::create(&cluster).unwrap();
        assert!(admin.exists() && Keys::of(&cluster).exist() && left() == 1);
        cluster.store().unwrap();
        assert!(Keys::of(&ClusterFile::read(folder.path()).unwrap()).admin().unwrap().is_some());
    }

    #[test]
    fn a_missing_administrator_file_is_no_error() {
        let (_folder, cluster) = drafted();
        let (admin, keys) = (Keys::create(&cluster).unwrap(), Keys::of(&cluster));
        assert!(keys.admin().unwrap().is_some());
        fs::remove_file(&admin).unwrap();
        assert!(keys.admin().unwrap().is_none());
        fs::write(&admin, "{").unwrap();
        assert_eq!(keys.admin().unwrap_err().kind(), ErrorKind::Invalid);
    }
}
