//! The sessions of a process with a cluster's nodes. Each is opened when it is first needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_clock::{Clock, Random};
use nacre_host::{HostNodes, HostTransport, answer_within};
use nacre_object::{Error, NodeName, Result};
use nacre_placement::{PlacedTarget, Target};
use nacre_registry::Nodes;
use nacre_telemetry::Sampling;
use nacre_wire::{RemoteStore, Session, SessionOptions};
use tokio::time::timeout;

use crate::client_switch::ClientSwitch;
use crate::cluster::{LogUse, Parts};
use crate::cluster_file::{ClusterFile, NodeEntry, RoleName};
use crate::gateway::Gateway;
use crate::neighbours::Neighbours;

/// How long a node may take to connect when a client calls it as the host of something, such as a
/// sequencer. After that the client takes the node for dead, and another node may take over. A live
/// process on a busy computer answers within milliseconds.
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);
/// A deadline that is just long enough for a call to find out that there is no connection.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How a client connects, besides what its cluster's file says.
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// Chooses requests of this client to trace down to the disk, although no caller asked for a
    /// trace. `None` chooses no requests.
    pub sampling: Option<Sampling>,
    /// Reads routed bytes straight from the nodes that keep them, where rules have the option
    /// `direct-reads`. A direct reply has the latest version of the object that this client knows.
    pub direct_reads: bool,
}

/// A session with every node of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    file: ClusterFile,
    sessions: BTreeMap<NodeName, Session>,
    neighbours: Neighbours,
    direct_reads: bool,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.sessions.keys()).finish()
    }
}

impl Sessions {
    /// Opens sessions with the nodes of a cluster's file. Needs a tokio runtime.
    ///
    /// # Errors
    /// `Invalid` if the file has a bad name or socket.
    pub fn new(file: &ClusterFile) -> Result<Self> {
        Self::with(file, &ConnectOptions::default())
    }

    /// Opens sessions as [`Sessions::new`] does, with these options.
    ///
    /// # Errors
    /// As [`Sessions::new`].
    pub fn with(file: &ClusterFile, connect: &ConnectOptions) -> Result<Self> {
        let open = |node: &NodeEntry| {
            let name = NodeName::new(&node.name)?;
            let options = SessionOptions {
                identity: file.identity().cloned(),
                node: Some(name.clone()),
                sampling: connect.sampling.clone(),
                ..SessionOptions::default()
            };
            Ok((name, Session::open(file.endpoint(node)?, options)))
        };
        let sessions = file.nodes().iter().map(open).collect::<Result<_>>()?;
        let neighbours = Neighbours::default();
        let direct_reads = connect.direct_reads;
        Ok(Self(Arc::new(Inner { file: file.clone(), sessions, neighbours, direct_reads })))
    }

    /// Lets clients reach nodes of other folders on this computer, if a system such as Ceph keeps
    /// the data. A client with an identity file cannot reach such nodes, because they admit only
    /// the user who runs them.
    pub fn find_neighbours_in(&self, registry: &Nodes) {
        if self.0.file.engine().is_some() && !self.0.file.folder().as_os_str().is_empty() {
            self.0.neighbours.find_in(registry);
        }
    }

    /// The session with a node.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn session(&self, node: &str) -> Result<&Session> {
        let found = self.0.sessions.iter().find(|(name, _)| name.as_str() == node);
        found.map(|(_, session)| session).ok_or_else(|| {
            Error::not_found(format!("the cluster has no node {node}"))
                .hint("see its nodes with `nacre status`")
        })
    }

    /// Returns the parts for [`Cluster::assemble`](crate::Cluster::assemble). This process uses the
    /// targets in `own` directly, and all others over a session.
    ///
    /// # Errors
    /// Those of [`Sessions::new`].
    pub fn parts(&self, own: &[PlacedTarget], clock: Arc<dyn Clock>) -> Result<Parts> {
        let targets = match self.0.file.engine() {
            None => self.targets(own, &clock)?,
            Some(_) => self.gateways(own)?,
        };
        let sequencers = Arc::new(self.clone());
        let logs = match self.0.file.engine() {
            None => LogUse::of_disks(),
            Some(_) => LogUse::of_ceph(targets.len()),
        };
        let sequencer_nodes = sequencers.clone();
        Ok(Parts { targets, sequencers, sequencer_nodes, logs, clock })
    }
}

impl Sessions {
    /// Nodes that keep each their objects.
    fn targets(&self, own: &[PlacedTarget], clock: &Arc<dyn Clock>) -> Result<Vec<PlacedTarget>> {
        let target = |node: &NodeEntry| {
            let target = target_of(node)?;
            let here = own.iter().find(|own| own.target.name == target.name);
            Ok(match here {
                Some(own) => own.clone(),
                None => {
                    let remote = RemoteStore::new(self.session(&node.name)?.clone());
                    let placed = PlacedTarget::new(target, Arc::new(remote));
                    match self.0.direct_reads {
                        true => self.switched(placed, node.node_name()?, clock),
                        false => placed,
                    }
                }
            })
        };
        self.0.file.with_role(RoleName::Storage).map(target).collect()
    }

    /// A target behind the switch of this client.
    fn switched(&self, to: PlacedTarget, home: NodeName, clock: &Arc<dyn Clock>) -> PlacedTarget {
        let (nodes, clock) = (self.clone(), Arc::clone(clock));
        let stack = to.stack.wrapped_by(|next| ClientSwitch::new(next, home, nodes, clock));
        PlacedTarget { stack, ..to }
    }

    /// Returns the gateways: the nodes through which any object can be reached. A process that is a
    /// gateway itself uses no other.
    fn gateways(&self, own: &[PlacedTarget]) -> Result<Vec<PlacedTarget>> {
        let entries: Vec<_> = self.0.file.with_role(RoleName::Storage).collect();
        if let Some(own) = own.first() {
            let here =
                |node: &&NodeEntry| Ok(PlacedTarget { target: target_of(node)?, ..own.clone() });
            return entries.iter().map(here).collect();
        }
        let remote = |node: &&NodeEntry| Ok(RemoteStore::new(self.session(&node.name)?.clone()));
        let remotes = entries.iter().map(remote).collect::<Result<Arc<[_]>>>()?;
        let watched = Random::from_system().below(remotes.len() as u64) as usize;
        let gateway = |(number, node): (usize, &&NodeEntry)| {
            let gateway = Gateway::new(remotes.clone(), number, watched);
            Ok(PlacedTarget::new(target_of(node)?, Arc::new(gateway)))
        };
        entries.iter().enumerate().map(gateway).collect()
    }
}

fn target_of(node: &NodeEntry) -> Result<Target> {
    Ok(Target { name: node.target()?, weight: node.weight })
}

#[async_trait]
impl HostTransport for Sessions {
    async fn ask(
        &self,
        node: &NodeName,
        service: &'static str,
        method: &'static str,
        input: Bytes,
        patience: Duration,
    ) -> Result<Bytes> {
        if let Some(entry) = self.0.file.known(node) {
            let session = self.session(&entry.name)?;
            let patience = match is_there(session).await {
                true => patience,
                // The session says at once why there is no connection.
                false => patience.min(AT_ONCE),
            };
            return session.ask(service, method, input, patience).await;
        }
        // If Ceph keeps the log, its sequencer may be a node of another folder, or a node that no
        // longer exists. If this client cannot reach it, a node of this folder takes over. The box
        // keeps the futures of all other requests small.
        let asked = Box::pin(self.0.neighbours.ask(node, service, method, input, patience));
        answer_within(patience, node, asked).await
    }
}

/// Whether a node is connected, or becomes so in a moment.
async fn is_there(session: &Session) -> bool {
    let connected = async || timeout(CONNECT_PATIENCE, session.until_connected(true)).await.is_ok();
    session.is_connected() || connected().await
}

#[async_trait]
impl HostNodes for Sessions {
    async fn nodes(&self) -> Result<Vec<NodeName>> {
        self.0.file.with_role(RoleName::Metadata).map(NodeEntry::node_name).collect()
    }
}
