//! The registry of nodes: the map `nodes` has one entry for each node, as JSON, under the node's
//! name.

use bytes::Bytes;
use nacre_object::{Error, MapName, NodeName, Result};
use serde::{Deserialize, Serialize};

use crate::maps::{Change, MapState, MapWatcher, Maps, NODES_MAP};

/// A process that serves the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name; a restarted node keeps it.
    pub name: NodeName,
    /// What it does, for example `target` or `sequencer`.
    pub roles: Vec<String>,
    /// Where it listens.
    pub address: String,
    /// Rises with every start of the node.
    pub incarnation: u64,
    /// When it was started: microseconds since 1970, UTC.
    pub started_at_micros: u64,
    /// Whether the node is up, by its last report.
    pub up: bool,
}

#[derive(Serialize, Deserialize)]
struct NodeRecord {
    roles: Vec<String>,
    address: String,
    incarnation: u64,
    started_at_micros: u64,
    up: bool,
}

/// The registry of nodes. A clone is another handle to it.
#[derive(Debug, Clone)]
pub struct Nodes {
    maps: Maps,
}

fn nodes_map() -> MapName {
    MapName::new(NODES_MAP).expect("a well-formed literal")
}

impl Node {
    fn parse(name: &str, value: &[u8]) -> Result<Self> {
        let record: NodeRecord = serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!("the record of node {name} is damaged: {cause}")).hint(format!(
                "remove it with `nacre map rm nodes {name} --system`, then restart the node"
            ))
        })?;
        Ok(Self {
            name: NodeName::new(name)?,
            roles: record.roles,
            address: record.address,
            incarnation: record.incarnation,
            started_at_micros: record.started_at_micros,
            up: record.up,
        })
    }

    fn to_value(&self) -> Bytes {
        let record = NodeRecord {
            roles: self.roles.clone(),
            address: self.address.clone(),
            incarnation: self.incarnation,
            started_at_micros: self.started_at_micros,
            up: self.up,
        };
        Bytes::from(serde_json::to_vec(&record).expect("a record has nothing JSON lacks"))
    }

    fn find(state: &MapState, name: &NodeName) -> Result<Option<Self>> {
        let value = state.entries.get(name.as_str());
        value.map(|value| Self::parse(name.as_str(), value)).transpose()
    }
}

impl Nodes {
    /// The nodes known to these maps.
    pub fn new(maps: Maps) -> Self {
        Self { maps }
    }

    /// Registers a node when it starts. Returns the epoch of the map `nodes`.
    ///
    /// # Errors
    /// `Stale` if a later incarnation of the node is registered: another process has started under
    /// this name.
    pub async fn register(&self, node: &Node) -> Result<u64> {
        let update = |state: &MapState| match Node::find(state, &node.name)? {
            Some(known) if known == *node => Ok(vec![]),
            Some(known) if known.incarnation > node.incarnation => Err(Error::stale(format!(
                "node {} is registered as incarnation {}, but this process is incarnation {}",
                node.name, known.incarnation, node.incarnation
            ))
            .hint("stop this process: a later one runs under this name")),
            _ => Ok(vec![Change::set(node.name.as_str(), node.to_value())]),
        };
        self.maps.update(&nodes_map(), update).await
    }

    /// Records that an incarnation of a node is down, so that other nodes stop waiting for it. Does
    /// nothing if a later incarnation is registered, or if there is no such node.
    ///
    /// # Errors
    /// Errors of [`Maps::update`].
    pub async fn mark_down(&self, name: &NodeName, incarnation: u64) -> Result<()> {
        let update = |state: &MapState| {
            let known = Node::find(state, name)?;
            let known = known.filter(|node| node.up && node.incarnation == incarnation);
            let down = known.map(|node| Node { up: false, ..node });
            Ok(down.map(|node| Change::set(name.as_str(), node.to_value())).into_iter().collect())
        };
        self.maps.update(&nodes_map(), update).await.map(|_| ())
    }

    /// Forgets a node. Succeeds if the node is unknown.
    ///
    /// # Errors
    /// Errors of [`Maps::update`].
    pub async fn forget(&self, name: &NodeName) -> Result<()> {
        let update = |state: &MapState| {
            let known = state.entries.contains_key(name.as_str());
            Ok(known.then(|| Change::remove(name.as_str())).into_iter().collect())
        };
        self.maps.update(&nodes_map(), update).await.map(|_| ())
    }

    /// Every node that is known, by name.
    ///
    /// # Errors
    /// `Unavailable`; `Corrupt`.
    pub async fn list(&self) -> Result<Vec<Node>> {
        let state = self.maps.get(&nodes_map()).await?;
        state.entries.iter().map(|(name, value)| Node::parse(name, value)).collect()
    }

    /// Watches the map of nodes from now on. After each event, the caller should list the nodes
    /// again.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn watch(&self) -> Result<MapWatcher> {
        let epoch = self.maps.epoch(&nodes_map()).await?;
        Ok(self.maps.watch(&nodes_map(), epoch))
    }
}
