//! Reaches nodes on this computer that belong to another cluster folder but use the same Ceph
//! cluster.
//!
//! A log has one sequencer, which may be a node of any of these folders. The registry of nodes says
//! where that node listens. A node's Unix socket admits only the user who runs the node. So this
//! client cannot reach a node on another computer, or one that another user runs.
//!
//! If the client cannot reach a log's sequencer, a node of the client's own folder takes the log
//! over. If clients of several folders use the log, its sequencer moves back and forth between the
//! folders.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nacre_object::{Error, NodeName, Result};
use nacre_registry::Nodes;
use nacre_wire::{Endpoint, Session, SessionOptions};

/// How many sessions are kept. At this number all are closed, to be opened again when needed.
const MAX_SESSIONS: usize = 64;
/// How long a process on this computer may take to connect. After that the process counts as gone.
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);

/// Sessions with such nodes, opened when first needed.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Where the nodes are looked up. Empty until the cluster is assembled.
    registry: OnceLock<Nodes>,
    sessions: Mutex<HashMap<NodeName, Session>>,
}

impl Neighbours {
    /// Looks nodes up in `registry` from now on.
    pub fn find_in(&self, registry: &Nodes) {
        // A second call changes nothing: there is one registry.
        let _ = self.registry.set(registry.clone());
    }

    /// Calls a service of a node of another folder.
    ///
    /// # Errors
    /// Those of the service; `Unavailable` if the node cannot be reached.
    pub async fn ask(
        &self,
        node: &NodeName,
        service: &str,
        method: &str,
        input: Bytes,
        deadline: Duration,
    ) -> Result<Bytes> {
        let session = self.session(node).await?;
        let connected = tokio::time::timeout(CONNECT_PATIENCE, session.until_connected(true)).await;
        // If the folder was made again, another node may listen on the same socket.
        if connected.is_err() || session.node().is_none_or(|found| found.name != *node) {
            self.sessions().remove(node);
            return Err(unreachable(node));
        }
        session.ask(service, method, input, deadline).await
    }

    async fn session(&self, node: &NodeName) -> Result<Session> {
        if let Some(session) = self.sessions().get(node) {
            return Ok(session.clone());
        }
        let endpoint = self.endpoint(node).await.ok_or_else(|| unreachable(node))?;
        let session = Session::open(endpoint, SessionOptions::default());
        let mut sessions = self.sessions();
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        Ok(sessions.entry(node.clone()).or_insert(session).clone())
    }

    /// The Unix socket of a node that is up.
    async fn endpoint(&self, node: &NodeName) -> Option<Endpoint> {
        let nodes = self.registry.get()?.list().await.ok()?;
        let found = nodes.into_iter().find(|known| known.name == *node && known.up)?;
        let endpoint: Endpoint = found.address.parse().ok()?;
        endpoint.path().is_some_and(|path| path.is_absolute()).then_some(endpoint)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<NodeName, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(node: &NodeName) -> Error {
    Error::unavailable(format!(
        "node {node} is not in this folder and cannot be reached on this machine"
    ))
    .hint(
        "run `nacre status` in the folder of that node; the node must be up, and run as the same \
         user as this command",
    )
}
