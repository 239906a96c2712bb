//! `cluster.json`: what a client must know before it can ask anybody.
//!
//! It lies in the cluster's folder and names every node with its roles, and its socket or address.
//! Everything else nacre knows (maps, programs, events) lives in objects and is found through these
//! nodes. An identity file names the nodes in the same way, by address, and says whether another system
//! keeps the data, so that it is all a client on another machine needs.
//!
//! ```json
//! {"format": 1, "nodes": [
//!   {"name": "storage.0", "roles": ["storage"], "weight": 1.0, "socket": "run/storage.0.sock"},
//!   {"name": "meta.0", "roles": ["metadata"], "socket": "run/meta.0.sock",
//!    "address": "10.0.0.1:7000"}]}
//! ```
//!
//! A cluster whose data another system keeps says so with `"engine": "ceph:/etc/ceph/ceph.conf"` and
//! has format 2, which earlier releases refuse. Nodes of several folders meet there, so each is known by a
//! name of its own, `"known_as": "gateway.0.1f3a9c2b"`; that is format 3. Nodes of a folder of format 2 go
//! on under the names they have.
//!
//! **Invariant:** the list of storage nodes decides placement; it does not change under a cluster
//! that holds data.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use nacre_clock::Random;
use nacre_object::{Error, NodeName, Result, TargetName};
use nacre_wire::{Endpoint, Identity};
use serde::{Deserialize, Serialize};

use crate::keys::Keys;

/// The format of a cluster that keeps its data itself.
const FORMAT: u32 = 1;
/// The format of one that names its engine, and how its nodes are known there; 2 does not say the latter.
const FORMAT_WITH_ENGINE: u32 = 3;
/// What an identity file says of a cluster with an engine.
const REMOTE_ENGINE: &str = "ceph:";
/// The file's name within the cluster's folder.
const FILE_NAME: &str = "cluster.json";
/// The socket of whoever runs the nodes; no longer than a node's, so where those fit it does.
const SUPERVISOR_SOCKET: &str = "run/up.sock";

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
    /// What it is called where nodes of several folders meet, if it keeps its objects there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// What it does.
    pub roles: Vec<Role>,
    /// For storage: its share of the objects, relative to the others'.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its Unix socket, relative to the cluster's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Where it listens with mutual TLS: `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

fn one() -> f64 {
    1.0
}

impl NodeEntry {
    /// Whether it has the role.
    pub fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// The name by which it is found in the cluster's maps: as the sequencer of a log, among the nodes.
    ///
    /// # Errors
    /// `Invalid` if the file was edited to hold something else.
    pub fn node_name(&self) -> Result<NodeName> {
        NodeName::new(self.known_name())
    }

    fn known_name(&self) -> &str {
        self.known_as.as_ref().unwrap_or(&self.name)
    }

    /// The name as a target's.
    ///
    /// # Errors
    /// `Invalid` if the file was edited to hold something else.
    pub fn target(&self) -> Result<TargetName> {
        self.name.parse()
    }
}

/// What every format has.
#[derive(Debug, Deserialize)]
struct Head {
    format: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<String>,
    nodes: Vec<NodeEntry>,
}

/// What an identity file says of the cluster.
#[derive(Debug, Deserialize)]
struct RemoteDocument {
    #[serde(default)]
    engine: Option<String>,
    #[serde(default)]
    nodes: Vec<NodeEntry>,
}

/// What a new cluster is to look like.
#[derive(Debug, Clone)]
pub struct Layout {
    /// What keeps the data, if that is not the nodes: `ceph:…`.
    pub engine: Option<String>,
    /// Storage targets; there is one metadata node besides. With an engine that keeps the data these
    /// nodes do both, keep nothing themselves, and any of them serves any object.
    pub storage: usize,
    /// Where the nodes listen with mutual TLS, each `HOST:PORT`, storage first; empty for nowhere.
    pub addresses: Vec<String>,
    /// Whether they listen on Unix sockets, too.
    pub sockets: bool,
}

/// A cluster's nodes, with the folder they run in or the identity to reach them by.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    /// Empty if it is elsewhere.
    folder: PathBuf,
    engine: Option<String>,
    nodes: Vec<NodeEntry>,
    identity: Option<Identity>,
}

impl Layout {
    /// How many nodes it comes to.
    pub fn node_count(&self) -> usize {
        self.nodes().len()
    }

    /// Every node's name and what it does.
    fn nodes(&self) -> Vec<NodeEntry> {
        let named: Vec<_> = match &self.engine {
            Some(_) => {
                let roles = vec![Role::Storage, Role::Metadata];
                (0..self.storage).map(|n| (format!("gateway.{n}"), roles.clone())).collect()
            }
            None => {
                let storage = |n| (format!("storage.{n}"), vec![Role::Storage]);
                let metadata = ("meta.0".to_owned(), vec![Role::Metadata]);
                (0..self.storage).map(storage).chain([metadata]).collect()
            }
        };
        let entry = |(number, (name, roles)): (usize, (String, Vec<Role>))| {
            let socket = self.sockets.then(|| Path::new("run").join(format!("{name}.sock")));
            let address = self.addresses.get(number).cloned();
            NodeEntry { name, known_as: None, roles, weight: 1.0, socket, address }
        };
        named.into_iter().enumerate().map(entry).collect()
    }
}

/// Gives the nodes of a new folder names that no other folder's have.
fn know_by_folder(nodes: &mut [NodeEntry]) {
    let folder = Random::from_system().next_u64() as u32;
    for node in nodes {
        node.known_as = Some(format!("{}.{folder:08x}", node.name));
    }
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
        let senseless = |error| Error::invalid(format!("{}: {error}", path.display()));
        // Before the rest, which another format may say differently.
        let Head { format } = serde_json::from_slice(&text).map_err(senseless)?;
        if !(FORMAT..=FORMAT_WITH_ENGINE).contains(&format) {
            return Err(Error::unsupported(format!(
                "{} has format {format}, this release reads {FORMAT} to {FORMAT_WITH_ENGINE}",
                path.display()
            ))
            .hint("use the release that wrote it, or a later one"));
        }
        let document: Document = serde_json::from_slice(&text).map_err(senseless)?;
        let Document { engine, nodes, .. } = document;
        let mut cluster = Self { folder, engine, nodes, identity: None };
        cluster.check()?;
        // Who can read a node's key is whoever runs it.
        if let Some(node) = cluster.nodes.iter().find(|node| node.socket.is_none()) {
            cluster.identity = Keys::of(&cluster).node(&node.name).ok();
        }
        Ok(cluster)
    }

    /// The cluster an identity file names, to be reached by that identity.
    ///
    /// # Errors
    /// `NotFound` if there is no such file; `Invalid` if it makes no sense or names no nodes.
    pub fn of_identity(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|error| {
            Error::not_found(format!("no identity at {}: {error}", path.display()))
                .hint("`nacre entity add NAME` makes one, on the machine of the cluster's folder")
        })?;
        let identity = Identity::parse(&text)?;
        let document: RemoteDocument = serde_json::from_slice(&text)
            .map_err(|error| Error::invalid(format!("{}: {error}", path.display())))?;
        let RemoteDocument { engine, nodes } = document;
        let cluster = Self { folder: PathBuf::new(), engine, nodes, identity: Some(identity) };
        cluster.check()?;
        Ok(cluster)
    }

    /// The same cluster, reached by an identity.
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// By which identity it is reached over the network.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Lays out a new cluster of `storage` targets and one metadata node on Unix sockets, and writes
    /// its file.
    ///
    /// # Errors
    /// As [`ClusterFile::lay_out`].
    pub fn create(folder: impl Into<PathBuf>, storage: usize) -> Result<Self> {
        Self::lay_out(folder, &Layout { engine: None, storage, addresses: vec![], sockets: true })
    }

    /// Lays out a new cluster and writes its file; keys, where there are addresses, are
    /// [made](Keys::create) besides.
    ///
    /// # Errors
    /// `Exists` if the folder holds one; `Invalid` if its path is too long for sockets or the
    /// addresses are not one a node; `Unavailable` if the folder cannot be written.
    pub fn lay_out(folder: impl Into<PathBuf>, layout: &Layout) -> Result<Self> {
        let folder = folder.into();
        let path = folder.join(FILE_NAME);
        if path.exists() {
            return Err(Error::exists(format!("{} holds a cluster", folder.display())));
        }
        let (mut nodes, addresses) = (layout.nodes(), layout.addresses.len());
        if addresses != 0 && addresses != nodes.len() {
            let text = format!("{addresses} addresses for {} nodes", nodes.len());
            return Err(Error::invalid(text));
        }
        let mut format = FORMAT;
        if layout.engine.is_some() {
            format = FORMAT_WITH_ENGINE;
            know_by_folder(&mut nodes);
        }
        let cluster = Self { folder, engine: layout.engine.clone(), nodes, identity: None };
        cluster.check()?;
        let unwritable = |error| {
            Error::unavailable(format!("cannot write {}: {error}", path.display()))
                .hint("choose a writable folder")
        };
        fs::create_dir_all(cluster.folder.join("run")).map_err(unwritable)?;
        let (engine, nodes) = (cluster.engine.clone(), cluster.nodes.clone());
        let document = Document { format, engine, nodes };
        let text = serde_json::to_vec_pretty(&document)
            .map_err(|error| Error::invalid(format!("cluster.json: {error}")))?;
        // Written beside and renamed, so that a crash leaves no half of it.
        let fresh = path.with_extension("json.new");
        let write = || {
            let mut file = fs::File::create(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            fs::File::open(&cluster.folder)?.sync_all()
        };
        write().map_err(unwritable)?;
        Ok(cluster)
    }

    fn check(&self) -> Result<()> {
        for node in &self.nodes {
            node.target()?;
            node.node_name()?;
            self.endpoint(node)?;
            if !(node.weight > 0.0 && node.weight.is_finite()) {
                return Err(Error::invalid(format!("weight {} of {}", node.weight, node.name))
                    .hint("weights are positive numbers"));
            }
        }
        let names = self.nodes.iter().map(|node| node.name.clone()).collect();
        let known = self.nodes.iter().flat_map(NodeEntry::node_name).map(|name| name.to_string());
        for mut names in [names, known.collect::<Vec<_>>()] {
            names.sort();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Error::invalid("cluster.json names a node twice"));
            }
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

    /// What keeps the data, if that is not the nodes.
    pub fn engine(&self) -> Option<&str> {
        self.engine.as_deref()
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

    /// The node that is known by this name in the cluster's maps, if it is one of these.
    pub fn known(&self, name: &NodeName) -> Option<&NodeEntry> {
        self.nodes.iter().find(|node| node.known_name() == name.as_str())
    }

    /// Where a node is reached from here: its socket if it has one, else its address.
    ///
    /// # Errors
    /// `Invalid` if it has neither, or one that makes no sense.
    pub fn endpoint(&self, node: &NodeEntry) -> Result<Endpoint> {
        match (self.socket(node)?, self.address(node)?) {
            (Some(endpoint), _) | (None, Some(endpoint)) => Ok(endpoint),
            (None, None) => {
                Err(Error::invalid(format!("node {} has no socket and no address", node.name)))
            }
        }
    }

    /// A node's Unix socket, if it has one.
    ///
    /// # Errors
    /// `Invalid` if its path is too long.
    pub fn socket(&self, node: &NodeEntry) -> Result<Option<Endpoint>> {
        let socket = node.socket.as_ref().map(|socket| Endpoint::unix(self.folder.join(socket)));
        let too_long = |error: Error| error.hint("use a cluster folder with a shorter path");
        socket.transpose().map_err(too_long)
    }

    /// Where a node listens with mutual TLS, if it does.
    ///
    /// # Errors
    /// `Invalid` if that is not `HOST:PORT`.
    pub fn address(&self, node: &NodeEntry) -> Result<Option<Endpoint>> {
        node.address.as_deref().map(Endpoint::tls).transpose()
    }

    /// Where the supervisor of the nodes is asked, on their machine.
    ///
    /// # Errors
    /// `Invalid` if its path is too long; `Unsupported` if only an identity is known of the cluster.
    pub fn supervisor(&self) -> Result<Endpoint> {
        if self.folder.as_os_str().is_empty() {
            return Err(Error::unsupported("a supervisor is asked on the machine of its nodes"));
        }
        Endpoint::unix(self.folder.join(SUPERVISOR_SOCKET))
    }

    /// What keeps the data as a client on another machine knows it: that it is not the nodes, and
    /// not how to get there past them.
    pub fn remote_engine(&self) -> Option<&'static str> {
        self.engine.as_ref().map(|_| REMOTE_ENGINE)
    }

    /// The nodes as a client on another machine knows them.
    ///
    /// # Errors
    /// `Unsupported` if one of them listens on a Unix socket alone.
    pub fn remote_nodes(&self) -> Result<Vec<NodeEntry>> {
        let remote = |node: &NodeEntry| match node.address {
            Some(_) => Ok(NodeEntry { socket: None, ..node.clone() }),
            None => Err(Error::unsupported(format!("node {} has no address", node.name))
                .hint("`nacre init --listen HOST:PORT` makes a cluster that is reached from afar")),
        };
        self.nodes.iter().map(remote).collect()
    }

    /// Where a node keeps its data.
    pub fn data(&self, node: &NodeEntry) -> PathBuf {
        self.folder.join(&node.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What release 0.1 wrote; never change it, add a sample of the next format beside it.
    const SAMPLE_FORMAT_1: &str = r#"{ "format": 1, "nodes": [
        { "name": "storage.0", "roles": ["storage"], "weight": 2.0, "socket": "run/storage.0.sock" },
        { "name": "meta.0", "roles": ["metadata"], "socket": "run/meta.0.sock" } ] }"#;

    #[test]
    fn the_sample_of_format_1_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), SAMPLE_FORMAT_1).unwrap();
        let cluster = ClusterFile::read(folder.path()).unwrap();
        let storage = cluster.node("storage.0").unwrap();
        assert_eq!((storage.weight, storage.has(Role::Storage)), (2.0, true));
        assert_eq!(cluster.node("meta.0").unwrap().weight, 1.0);
        assert_eq!(cluster.data(storage), folder.path().join("storage.0"));
    }

    /// What the first release with an engine wrote.
    const SAMPLE_FORMAT_2: &str = r#"{ "format": 2, "engine": "ceph:/etc/ceph/ceph.conf", "nodes": [
        { "name": "gateway.0", "roles": ["storage", "metadata"], "socket": "run/gateway.0.sock" } ] }"#;

    #[test]
    fn the_sample_of_format_2_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), SAMPLE_FORMAT_2).unwrap();
        let cluster = ClusterFile::read(folder.path()).unwrap();
        assert_eq!(cluster.engine(), Some("ceph:/etc/ceph/ceph.conf"));
        let gateway = cluster.node("gateway.0").unwrap();
        assert!(gateway.has(Role::Storage) && gateway.has(Role::Metadata));
        assert_eq!(gateway.node_name().unwrap().as_str(), "gateway.0");
    }

    /// What the first release wrote that made names for nodes of several folders.
    const SAMPLE_FORMAT_3: &str = r#"{ "format": 3, "engine": "ceph:/etc/ceph/ceph.conf", "nodes": [
        { "name": "gateway.0", "known_as": "gateway.0.1f3a9c2b", "roles": ["storage", "metadata"],
          "weight": 1.0, "socket": "run/gateway.0.sock" } ] }"#;

    #[test]
    fn the_sample_of_format_3_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), SAMPLE_FORMAT_3).unwrap();
        let cluster = ClusterFile::read(folder.path()).unwrap();
        let gateway = cluster.node("gateway.0").unwrap();
        let known = gateway.node_name().unwrap();
        assert_eq!(known.as_str(), "gateway.0.1f3a9c2b");
        assert_eq!(cluster.known(&known), Some(gateway));
    }

    #[test]
    fn nodes_of_two_folders_on_one_system_have_different_names() {
        let layout = Layout {
            engine: Some("ceph:/etc/ceph/ceph.conf".to_owned()),
            storage: 2,
            addresses: vec![],
            sockets: true,
        };
        let names = [(); 2].map(|()| {
            let folder = tempfile::tempdir().unwrap();
            let made = ClusterFile::lay_out(folder.path(), &layout).unwrap();
            let read = ClusterFile::read(folder.path()).unwrap();
            assert_eq!(made.nodes(), read.nodes());
            read.nodes().iter().map(|node| node.node_name().unwrap()).collect::<Vec<_>>()
        });
        assert!(names[0].iter().all(|name| !names[1].contains(name)), "{names:?}");
    }

    #[test]
    fn a_later_format_is_refused_with_what_to_do_whatever_else_it_says() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE_NAME), r#"{"format": 4, "machines": {}}"#).unwrap();
        let refused = ClusterFile::read(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), nacre_object::ErrorKind::Unsupported);
        assert!(refused.hint_text().unwrap().contains("release"));
    }

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
