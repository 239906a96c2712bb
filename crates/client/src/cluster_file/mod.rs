//! `cluster.json`: what a client must know before it can send a request.
//!
//! The file is in the cluster's folder. It names every node with its roles and its socket or
//! address. Everything else that nacre knows (maps, programs, events) is in objects, which a client
//! reads through these nodes.
//!
//! A client on another computer has an *identity file* instead. It names the nodes by address, and
//! says whether another system keeps the data.
//!
//! **Invariant:** the list of storage nodes decides placement. It does not change while the cluster
//! holds data.

mod document;
mod entry;
mod folder_lock;
mod layout;
mod role_name;

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nacre_object::{Error, NodeName, Result};
use nacre_wire::{Endpoint, Identity};

use self::document::{Document, RemoteDocument};
pub(crate) use self::document::{FILE_NAME as CLUSTER_FILE, damage_of_file, storage_targets_of};
pub use self::entry::NodeEntry;
pub use self::folder_lock::FolderLock;
pub use self::layout::Layout;
pub use self::role_name::RoleName;
use crate::keys::Keys;
use crate::targets::{self, UniqueId};

/// What an identity file says of a cluster with an engine.
const REMOTE_ENGINE: &str = "ceph:";
/// The socket of the supervisor.
const SUPERVISOR_SOCKET: &str = "run/up.sock";
/// The folder, within the cluster's folder, of sockets, locks and log files.
const RUN_FOLDER: &str = "run";

/// The nodes of a cluster, and either the folder they run in or an identity that reaches them.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    /// The cluster's folder. Empty if the cluster comes from an identity file.
    folder: PathBuf,
    /// The id of the cluster. `None` if another system keeps the data, or if the cluster comes from
    /// an identity file.
    id: Option<UniqueId>,
    engine: Option<String>,
    nodes: Vec<NodeEntry>,
    identity: Option<Identity>,
}

impl ClusterFile {
    /// Reads the cluster of a folder.
    ///
    /// # Errors
    /// `NotFound` with what to do if there is no cluster; `Denied` if the file belongs to another
    /// user; `Corrupt` if the folder has storage targets but no cluster file; `Invalid` if the file
    /// is malformed; `Unsupported` if another release wrote it.
    pub fn read(folder: impl Into<PathBuf>) -> Result<Self> {
        let folder = folder.into();
        let Document { id, engine, nodes, .. } = Document::read(&folder)?;
        let mut cluster = Self { folder, id, engine, nodes, identity: None };
        cluster.check()?;
        targets::refuse_left_out_targets(&cluster)?;
        // A node without a socket must be reached by TLS. Any node's key will do as this client's
        // identity: only the user who runs the nodes can read it.
        if let Some(node) = cluster.nodes.iter().find(|node| node.socket.is_none()) {
            cluster.identity = Keys::of(&cluster).node(&node.name).ok();
        }
        Ok(cluster)
    }

    /// The cluster that an identity file names. The client connects to it with that identity.
    ///
    /// # Errors
    /// `NotFound` if there is no such file; `Denied` if it belongs to another user; `Invalid` if it
    /// is malformed or names no nodes.
    pub fn of_identity(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = fs::read(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                Error::denied(format!("cannot read {}: {error}", path.display()))
                    .hint("use an identity of your own: only its owner can read an identity file")
            }
            _ => Error::not_found(format!("no identity at {}: {error}", path.display()))
                .hint("make one with `nacre entity add NAME`, where the cluster's folder is"),
        })?;
        let unreadable = |error: &dyn Display| {
            Error::invalid(format!("{} is not a valid identity file: {error}", path.display()))
                .hint("make another with `nacre entity add NAME`, where the cluster's folder is")
        };
        let identity = Identity::parse(&text).map_err(|error| unreadable(&error.message()))?;
        let document = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        let RemoteDocument { engine, nodes } = document;
        let (folder, identity) = (PathBuf::new(), Some(identity));
        let cluster = Self { folder, id: None, engine, nodes, identity };
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

    fn check(&self) -> Result<()> {
        for node in &self.nodes {
            node.target()?;
            node.node_name()?;
            self.endpoint(node)?;
            if !(node.weight > 0.0 && node.weight.is_finite()) {
                return Err(Error::invalid(format!(
                    "node {1} has the weight {0}, which is not a positive number",
                    node.weight, node.name
                ))
                .hint("use a positive number"));
            }
        }
        let names = self.nodes.iter().map(|node| node.name.clone()).collect();
        let known = self.nodes.iter().flat_map(NodeEntry::node_name).map(|name| name.to_string());
        for mut names in [names, known.collect::<Vec<_>>()] {
            names.sort();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Error::invalid("cluster.json names a node twice")
                    .hint("give each node its own name"));
            }
        }
        if !self.nodes.iter().any(|node| node.has(RoleName::Storage)) {
            return Err(Error::invalid(
                "the cluster has no storage target, and it needs at least one",
            )
            .hint("give a node the role storage"));
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
    pub fn with_role(&self, role: RoleName) -> impl Iterator<Item = &NodeEntry> {
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

    /// Returns the node that has this name in the cluster's maps, if it is one of these nodes.
    pub fn known(&self, name: &NodeName) -> Option<&NodeEntry> {
        self.nodes.iter().find(|node| node.known_name() == name.as_str())
    }

    /// Where this process reaches a node: at its socket if it has one, else at its address.
    ///
    /// # Errors
    /// `Invalid` if it has neither, or if the socket or address is malformed.
    pub fn endpoint(&self, node: &NodeEntry) -> Result<Endpoint> {
        match (self.socket(node)?, self.address(node)?) {
            (Some(endpoint), _) | (None, Some(endpoint)) => Ok(endpoint),
            (None, None) => {
                Err(Error::invalid(format!("node {} has no socket and no address", node.name))
                    .hint("add the one or the other to its entry"))
            }
        }
    }

    /// A node's Unix socket, if it has one.
    ///
    /// # Errors
    /// `Invalid` if a socket cannot have its name.
    pub fn socket(&self, node: &NodeEntry) -> Result<Option<Endpoint>> {
        node.socket.as_ref().map(|socket| Endpoint::unix(self.folder.join(socket))).transpose()
    }

    /// The address at which a node listens with mutual TLS, if it does.
    ///
    /// # Errors
    /// `Invalid` if the address is not `HOST:PORT`.
    pub fn address(&self, node: &NodeEntry) -> Result<Option<Endpoint>> {
        node.address.as_deref().map(Endpoint::tls).transpose()
    }

    /// The socket of the nodes' supervisor, which is on the same computer as the folder.
    ///
    /// # Errors
    /// `Unsupported` if the cluster is known from an identity file only.
    pub fn supervisor(&self) -> Result<Endpoint> {
        if self.folder.as_os_str().is_empty() {
            return Err(Error::unsupported(
                "the supervisor can only be reached on the machine of its nodes",
            ));
        }
        Endpoint::unix(self.folder.join(SUPERVISOR_SOCKET))
    }

    /// The folder with the nodes' sockets, locks and logs on this computer. Makes the folder if it
    /// is missing, for example in a copy of a cluster's folder.
    ///
    /// # Errors
    /// `Unavailable` if it cannot be made.
    pub fn run_folder(&self) -> Result<PathBuf> {
        let path = self.folder.join(RUN_FOLDER);
        nacre_files::create_folder(&path).map_err(|error| {
            Error::unavailable(format!("cannot make {}: {error}", path.display()))
        })?;
        Ok(path)
    }

    /// What an identity file says about the engine: which kind of system keeps the data, but not
    /// how to reach that system directly.
    pub fn remote_engine(&self) -> Option<&'static str> {
        self.engine.as_ref().map(|_| REMOTE_ENGINE)
    }

    /// The nodes, with what a client on another computer needs to reach them.
    ///
    /// # Errors
    /// `Unsupported` if a node listens on a Unix socket only.
    pub fn remote_nodes(&self) -> Result<Vec<NodeEntry>> {
        let remote = |node: &NodeEntry| match node.address {
            Some(_) => Ok(NodeEntry { id: None, socket: None, ..node.clone() }),
            None => Err(Error::unsupported(format!("node {} has no address", node.name)).hint(
                "make a cluster that other machines can reach: `nacre init --listen HOST:PORT`",
            )),
        };
        self.nodes.iter().map(remote).collect()
    }

    /// The id of the cluster, if it has one.
    pub(crate) fn id(&self) -> Option<UniqueId> {
        self.id
    }

    /// Gives the cluster its id, and a target its own.
    pub(crate) fn identify(&mut self, target: &str, cluster: UniqueId, id: UniqueId) {
        self.id = Some(cluster);
        if let Some(node) = self.nodes.iter_mut().find(|node| node.name == target) {
            node.id = Some(id);
        }
    }

    /// Writes the file in place of the one that is there.
    pub(crate) fn replace(&self) -> Result<()> {
        Document::of(self).replace(&self.folder)
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> io::Result<Vec<u8>> {
        Document::of(self).to_text()
    }

    /// Checks that the data of a target is lost, so that an operator may give the target up.
    ///
    /// # Errors
    /// Those of [`ClusterFile::forget_target`].
    pub fn check_forgettable(&self, name: &str) -> Result<()> {
        targets::check_forgettable(self, name).map(drop)
    }

    /// Gives up the data of a target whose folder is lost. The target then starts empty.
    ///
    /// # Errors
    /// `Invalid` if nothing is lost, or if the folder holds data. Nothing is deleted then.
    pub fn forget_target(self, name: &str, _: &FolderLock) -> Result<()> {
        targets::forget(self, name)
    }

    /// Where a node keeps its data.
    pub fn data(&self, node: &NodeEntry) -> PathBuf {
        self.folder.join(&node.name)
    }
}
