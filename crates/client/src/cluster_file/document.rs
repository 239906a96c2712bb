//! The JSON of `cluster.json`, and the JSON about the cluster that an identity file contains.
//!
//! ```json
//! {"format": 1, "id": "5b1c…", "nodes": [
//!   {"name": "storage.0", "id": "90af…", "roles": ["storage"], "weight": 1.0,
//!    "socket": "run/storage.0.sock"},
//!   {"name": "meta.0", "roles": ["metadata"], "socket": "run/meta.0.sock",
//!    "address": "10.0.0.1:7000"}]}
//! ```
//!
//! Each target's folder also stores the ids of the cluster and of the target.
//!
//! If another system keeps the data, the file says so with `"engine": "ceph:/etc/ceph/ceph.conf"`
//! and has no ids. Nodes of several folders may share that system, so each node has a name that is
//! unique among all of them: `"known_as": "gateway.0.1f3a9c2b"`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use super::layout::holds_one;
use super::{ClusterFile, NodeEntry, RUN_FOLDER, RoleName};
use crate::targets::{UniqueId, refuse_targets_without_cluster, restore_cluster_file};

/// The format this release reads and writes.
const FORMAT: u32 = 1;
/// The file's name within the cluster's folder.
pub(crate) const FILE_NAME: &str = "cluster.json";

/// What every format has.
#[derive(Debug, Deserialize)]
struct Head {
    format: u32,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Document {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<UniqueId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    pub nodes: Vec<NodeEntry>,
}

/// What an identity file says of the cluster.
#[derive(Debug, Deserialize)]
pub(super) struct RemoteDocument {
    #[serde(default)]
    pub engine: Option<String>,
    #[serde(default)]
    pub nodes: Vec<NodeEntry>,
}

impl Document {
    /// The content of the file for `cluster`.
    pub fn of(cluster: &ClusterFile) -> Self {
        let (engine, nodes) = (cluster.engine.clone(), cluster.nodes.clone());
        Self { format: FORMAT, id: cluster.id, engine, nodes }
    }

    /// Whether a folder has a cluster file.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(FILE_NAME).exists()
    }

    /// Reads the cluster file of a folder.
    ///
    /// # Errors
    /// Those of [`ClusterFile::read`].
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE_NAME);
        let text = fs::read(&path).map_err(|error| unreadable(folder, &path, &error))?;
        let senseless = |error| {
            Error::invalid(format!("{} is not a valid cluster file: {error}", path.display()))
                .hint(restore_cluster_file(folder))
        };
        // Check the format first: in another format the rest may look different.
        let Head { format } = serde_json::from_slice(&text).map_err(senseless)?;
        if format != FORMAT {
            let text =
                format!("{} has format {format}, this release reads {FORMAT}", path.display());
            return Err(
                Error::unsupported(text).hint("use the release that wrote it, or a later one")
            );
        }
        let document: Self = serde_json::from_slice(&text).map_err(senseless)?;
        if !document.identifies_targets() {
            let text = format!("{} gives the storage targets no ids", path.display());
            return Err(Error::invalid(text).hint(
                "make a new cluster in another folder: a nacre older than 0.1.0 wrote this",
            ));
        }
        Ok(document)
    }

    /// Whether the cluster and all its storage targets have ids. A cluster whose data another
    /// system keeps needs none.
    fn identifies_targets(&self) -> bool {
        let needs_id = |node: &&NodeEntry| node.has(RoleName::Storage);
        let have_ids = self.nodes.iter().filter(needs_id).all(|node| node.id.is_some());
        self.engine.is_some() || self.id.is_some() && have_ids
    }

    /// Writes the file, and makes the folder.
    ///
    /// # Errors
    /// `Exists` if the folder has a cluster file; `Unavailable` if the file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE_NAME);
        let write = || -> io::Result<()> {
            let text = self.to_text()?;
            nacre_files::create_folder(&folder.join(RUN_FOLDER))?;
            // Write the file under a temporary name, and link it to its final name once it is
            // complete. So a crash leaves no half-written file, and a file that another process
            // stored meanwhile is not replaced.
            let fresh = path.with_extension(format!("json.{}.new", std::process::id()));
            let mut file =
                nacre_files::open_options().create(true).truncate(true).write(true).open(&fresh)?;
            let stored = file
                .write_all(&text)
                .and_then(|()| file.sync_all())
                .and_then(|()| fs::hard_link(&fresh, &path));
            let _ = fs::remove_file(&fresh);
            stored?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => holds_one(folder),
            _ => unwritable(&path, &error),
        })
    }

    /// Writes the file in place of the present one.
    ///
    /// # Errors
    /// `Unavailable` if the file cannot be written.
    pub fn replace(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE_NAME);
        let replaced = self.to_text().and_then(|text| nacre_files::replace(&path, &text));
        replaced.map_err(|error| unwritable(&path, &error))
    }

    /// The content of the file.
    ///
    /// # Errors
    /// None in practice, because the content is always valid JSON.
    pub fn to_text(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(io::Error::from)
    }
}

/// Returns what is wrong with the cluster file of a folder, and what to do. `None` if nothing is
/// wrong.
pub(crate) fn damage_of_file(folder: &Path) -> Option<String> {
    let is_there = folder.join(FILE_NAME).exists();
    is_there.then(|| Document::read(folder).err()).flatten().map(|error| error.message().to_owned())
}

/// Returns the storage targets that a folder's cluster file names. Returns none if the file belongs
/// to a cluster with another id.
pub(crate) fn storage_targets_of(folder: &Path, id: UniqueId) -> Vec<String> {
    let document = Document::read(folder).ok().filter(|document| document.id == Some(id));
    let nodes = document.map(|document| document.nodes).unwrap_or_default();
    let storage = nodes.into_iter().filter(|node| node.has(RoleName::Storage));
    storage.map(|node| node.name).collect()
}

fn unreadable(folder: &Path, path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Error::denied(format!("cannot read {}: {error}", path.display()))
            .hint("run the command as the user who runs the cluster, or with --identity FILE");
    }
    let none = Error::not_found(format!("there is no cluster at {}: {error}", folder.display()))
        .hint("start one with `nacre up`, or name its folder with --cluster DIR");
    refuse_targets_without_cluster(folder).err().unwrap_or(none)
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::unavailable(format!("cannot write {}: {error}", path.display()))
        .hint("choose a writable folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a folder whose file says this.
    fn read(text: &str) -> Result<ClusterFile> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), text).unwrap();
        ClusterFile::read(folder.path())
    }

    /// A file as release 0.1.0 writes it. Never change it; add a sample of the next format after
    /// it.
    const SAMPLE_FORMAT_1: &str = r#"{ "format": 1,
        "id": "000102030405060708090a0b0c0d0e0f", "nodes": [
        { "name": "storage.0", "id": "f0e0d0c0b0a090807060504030201000", "roles": ["storage"],
          "weight": 2.0, "socket": "run/storage.0.sock" },
        { "name": "meta.0", "roles": ["metadata"], "socket": "run/meta.0.sock" } ] }"#;

    #[test]
    fn the_sample_of_format_1_can_be_read() {
        let cluster = read(SAMPLE_FORMAT_1).unwrap();
        assert_eq!(cluster.id().unwrap().to_string(), "000102030405060708090a0b0c0d0e0f");
        let storage = cluster.node("storage.0").unwrap();
        assert_eq!((storage.weight, storage.has(RoleName::Storage)), (2.0, true));
        assert_eq!(storage.id.unwrap().to_string(), "f0e0d0c0b0a090807060504030201000");
        assert_eq!(cluster.node("meta.0").unwrap().weight, 1.0);
        assert_eq!(cluster.data(storage), cluster.folder().join("storage.0"));
        assert!(read(&SAMPLE_FORMAT_1.replace("f0e0", "")).is_err());
    }

    /// The same of a cluster on Ceph.
    const SAMPLE_FORMAT_1_WITH_ENGINE: &str = r#"{ "format": 1,
        "engine": "ceph:/etc/ceph/ceph.conf", "nodes": [
        { "name": "gateway.0", "known_as": "gateway.0.1f3a9c2b", "roles": ["storage", "metadata"],
          "weight": 1.0, "socket": "run/gateway.0.sock" } ] }"#;

    #[test]
    fn the_sample_of_format_1_with_an_engine_can_be_read() {
        let cluster = read(SAMPLE_FORMAT_1_WITH_ENGINE).unwrap();
        assert_eq!(cluster.engine(), Some("ceph:/etc/ceph/ceph.conf"));
        let gateway = cluster.node("gateway.0").unwrap();
        assert!(gateway.has(RoleName::Storage) && gateway.has(RoleName::Metadata));
        let known = gateway.node_name().unwrap();
        assert_eq!(known.as_str(), "gateway.0.1f3a9c2b");
        assert_eq!(cluster.known(&known), Some(gateway));
    }

    #[test]
    fn a_file_without_ids_is_refused_with_what_to_do() {
        let text = SAMPLE_FORMAT_1.replace(r#""id": "f0e0d0c0b0a090807060504030201000","#, "");
        let refused = read(&text).unwrap_err();
        assert_eq!(refused.kind(), nacre_object::ErrorKind::Invalid);
        assert!(refused.hint_text().unwrap().contains("new cluster"), "{refused}");
    }

    #[test]
    fn a_later_format_is_refused_with_what_to_do_whatever_else_it_says() {
        let refused = read(r#"{"format": 4, "machines": {}}"#).unwrap_err();
        assert_eq!(refused.kind(), nacre_object::ErrorKind::Unsupported);
        assert!(refused.hint_text().unwrap().contains("release"));
    }

    #[test]
    fn an_absent_broken_or_foreign_file_gives_a_clear_error() {
        let folder = tempfile::tempdir().unwrap();
        let kind = |text| read(text).unwrap_err().kind();
        let absent = ClusterFile::read(folder.path()).unwrap_err();
        assert!(absent.hint_text().unwrap().contains("nacre up"));
        assert_eq!(kind("{"), nacre_object::ErrorKind::Invalid);
        assert_eq!(kind(r#"{"format": 9, "nodes": []}"#), nacre_object::ErrorKind::Unsupported);
        assert_eq!(kind(r#"{"format": 1, "nodes": []}"#), nacre_object::ErrorKind::Invalid);
    }
}
