//! `cluster.json`: what a client must know before it can ask anybody.
//!
//! It lies in the cluster's folder and names every node with its roles and socket. Everything else
//! nacre knows (maps, programs, events) lives in objects and is found through these nodes.
//!
//! ```json
//! {"format": 1, "nodes": [
//!   {"name": "storage.0", "roles": ["storage"], "weight": 1.0, "socket": "run/storage.0.sock"},
//!   {"name": "meta.0", "roles": ["metadata"], "socket": "run/meta.0.sock"}]}
//! ```
//!
//! **Invariant:** the list of storage nodes decides placement; it does not change under a cluster
//! that holds data.

use std::fs;
use std::path::{Path, PathBuf};

use nacre_object::{Error, Result, TargetName};
use serde::{Deserialize, Serialize};

/// The format this release writes and reads.
const FORMAT: u32 = 1;
/// The file's name within the cluster's folder.
const FILE_NAME: &str = "cluster.json";
/// Linux's `sun_path` holds 108 bytes with the final NUL.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Keeps objects: a storage target.
    Storage,
    /// Hosts sequencers.
    Metadata,
}

impl Role {
    /// The role as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Metadata => "metadata",
        }
    }
}

/// One node of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name, also that of the target it is.
    pub name: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// For storage: its share of the objects, relative to the others'.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its Unix socket, relative to the cluster's folder.
    pub socket: PathBuf,
}

fn one() -> f64 {
    1.0
}

impl NodeEntry {
    /// Whether it has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// The name as a target's.
    ///
    /// # Errors
    /// `Invalid` if the file was edited to hold something else.
    pub fn target(&self) -> Result<TargetName> {
        self.name.parse()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    nodes: Vec<NodeEntry>,
}

/// A cluster's folder with what its `cluster.json` says.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    folder: PathBuf,
    nodes: Vec<NodeEntry>,
}

impl ClusterFile {
    /// Reads the cluster of a folder.
    ///
    /// # Errors
    /// `NotFound` with what to do if there is none; `Invalid` if the file makes no sense;
    /// `Unsupported` if another release wrote it.
    pub fn read(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let path = folder.join(FILE_NAME);
        let text = fs::read(&path).map_err(|error| {
            Error::not_found(format!("no cluster at {}: {error}", folder.display()))
                .hint("start one with `nacre up`, or name its folder with --cluster DIR")
        })?;
        let document: Document = serde_json::from_slice(&text)
            .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
        if document.format != FORMAT {
            return Err(Error::unsupported(format!(
                "{} has format {}, this release reads {FORMAT}",
                path.display(),
                document.format
            )));
        }
        let cluster = Self { folder, nodes: document.nodes };
        cluster.check()?;
        Ok(cluster)
    }

    /// Lays out a new cluster of `storage` targets and one metadata node, and writes its file.
    ///
    /// # Errors
    /// `Exists` if the folder holds one; `Invalid` if its path is too long for sockets;
    /// `Unavailable` if the folder cannot be written.
    pub fn create(folder: impl Into<PathBuf>, storage: usize) -> Result<Self> {
        let folder = folder.into();
        let path = folder.join(FILE_NAME);
        if path.exists() {
            return Err(Error::exists(format!("{} holds a cluster", folder.display())));
        }
        let entry = |name: String, role| NodeEntry {
            socket: Path::new("run").join(format!("{name}.sock")),
            name,
            roles: vec![role],
            weight: 1.0,
        };
        let mut nodes: Vec<_> =
            (0..storage).map(|n| entry(format!("storage.{n}"), Role::Storage)).collect();
        nodes.push(entry("meta.0".into(), Role::Metadata));
        let cluster = Self { folder, nodes };
        cluster.check()?;
        let unwritable = |error| {
            Error::unavailable(format!("cannot write {}: {error}", path.display()))
                .hint("choose a writable folder")
        };
        fs::create_dir_all(cluster.folder.join("run")).map_err(unwritable)?;
        let document = Document { format: FORMAT, nodes: cluster.nodes.clone() };
        let text = serde_json::to_vec_pretty(&document)
            .map_err(|error| Error::invalid(format!("cluster.json: {error}")))?;
        // Written beside and renamed, so that a crash leaves no half of it.
        let fresh = path.with_extension("json.new");
        fs::write(&fresh, text).map_err(unwritable)?;
        fs::rename(&fresh, &path).map_err(unwritable)?;
        Ok(cluster)
    }

    fn check(&self) -> Result<()> {
        for node in &self.nodes {
            node.target()?;
            let socket = self.socket(node);
            if socket.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
                return Err(Error::invalid(format!(
                    "the socket path {} is longer than the {MAX_SOCKET_PATH_BYTES} bytes Linux allows",
                    socket.display()
                ))
                .hint("use a cluster folder with a shorter path"));
            }
            if !(node.weight > 0.0 && node.weight.is_finite()) {
                return Err(Error::invalid(format!("weight {} of {}", node.weight, node.name))
                    .hint("weights are positive numbers"));
            }
        }
        let mut names: Vec<_> = self.nodes.iter().map(|node| &node.name).collect();
        names.sort();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid("cluster.json names a node twice"));
        }
        if !self.nodes.iter().any(|node| node.has(Role::Storage)) {
            return Err(Error::invalid("a cluster needs at least one storage target"));
        }
        Ok(())
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every node.
    pub fn nodes(&self) -> &[NodeEntry] {
        &self.nodes
    }

    /// The nodes with a role.
    pub fn with_role(&self, role: Role) -> impl Iterator<Item = &NodeEntry> {
        self.nodes.iter().filter(move |node| node.has(role))
    }

    /// A node by name.
    ///
    /// # Errors
    /// `NotFound`, with the names there are.
    pub fn node(&self, name: &str) -> Result<&NodeEntry> {
        self.nodes.iter().find(|node| node.name == name).ok_or_else(|| {
            let names: Vec<_> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            Error::not_found(format!("no node {name:?}"))
                .hint(format!("the cluster has {}", names.join(", ")))
        })
    }

    /// A node's socket.
    pub fn socket(&self, node: &NodeEntry) -> PathBuf {
        self.folder.join(&node.socket)
    }

    /// Where a node keeps its data.
    pub fn data(&self, node: &NodeEntry) -> PathBuf {
        self.folder.join(&node.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_cluster_reads_back_and_is_not_laid_out_twice() {
        let folder = tempfile::tempdir().unwrap();
        let made = ClusterFile::create(folder.path(), 3).unwrap();
        let read = ClusterFile::read(folder.path()).unwrap();
        assert_eq!(made.nodes(), read.nodes());
        assert_eq!(read.with_role(Role::Storage).count(), 3);
        let again = ClusterFile::create(folder.path(), 3).unwrap_err();
        assert_eq!(again.kind(), nacre_object::ErrorKind::Exists);
    }

    #[test]
    fn an_absent_broken_or_foreign_file_is_said_plainly() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |text: &str| {
            fs::write(folder.path().join(FILE_NAME), text).unwrap();
            ClusterFile::read(folder.path()).unwrap_err().kind()
        };
        let absent = ClusterFile::read(folder.path()).unwrap_err();
        assert!(absent.hint_text().unwrap().contains("nacre up"));
        assert_eq!(kind("{"), nacre_object::ErrorKind::Invalid);
        assert_eq!(kind(r#"{"format": 9, "nodes": []}"#), nacre_object::ErrorKind::Unsupported);
        assert_eq!(kind(r#"{"format": 1, "nodes": []}"#), nacre_object::ErrorKind::Invalid);
    }

    #[test]
    fn a_folder_too_deep_for_sockets_is_refused_before_anything_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        assert!(ClusterFile::create(&deep, 1).is_err());
        assert!(!deep.exists());
    }
}
