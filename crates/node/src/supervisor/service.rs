//! The service `supervisor`, by which a supervisor reports about all its nodes, including nodes
//! that do not serve. It listens on a Unix socket in the cluster's folder.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `nodes` | – | a [`SupervisedReport`] for each node, as a JSON array |

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nacre::ClusterFile;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, ErrorKind, NodeName, Result};
use nacre_wire::{Caller, Listener, Server, Service, Session, SessionOptions};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::SUPERVISOR;
use super::supervised_node::{SupervisedNode, SupervisedReport};

/// The service's name on the wire.
const SUPERVISOR_SERVICE: &str = "supervisor";

#[derive(Debug)]
struct SupervisorService(Vec<SupervisedNode>);

#[async_trait]
impl Service for SupervisorService {
    async fn ask(&self, _: &Caller, method: &str, _: Bytes) -> Result<Bytes> {
        if method != "nodes" {
            return Err(Error::unsupported(format!(
                "{SUPERVISOR_SERVICE} has no method {method:?}"
            )));
        }
        let reports: Vec<_> = self.0.iter().map(SupervisedNode::report).collect();
        let text = serde_json::to_vec(&reports);
        text.map(Bytes::from).map_err(|error| Error::invalid(format!("the reports: {error}")))
    }
}

/// Answers for the nodes.
#[derive(Debug)]
pub(super) struct Answering {
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl Answering {
    /// Ends the service; the socket is free again when this returns.
    pub async fn stop(self) {
        drop(self.shutdown);
        let _ = self.task.await;
    }
}

/// Serves reports about the nodes until the returned value is stopped or dropped.
///
/// # Errors
/// `Denied` or `Invalid` if the socket cannot be made.
pub(super) async fn answer(cluster: &ClusterFile, nodes: Vec<SupervisedNode>) -> Result<Answering> {
    let listener = Listener::bind(&cluster.supervisor()?).await?;
    let name = NodeName::new(SUPERVISOR)?;
    let server = Server::builder(name, SystemClock::default().now_micros())
        .service(SUPERVISOR_SERVICE, Arc::new(SupervisorService(nodes)))
        .build();
    let (shutdown, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let stopped = async {
            // The server stops when the sender sends a message or is dropped.
            let _ = stopped.await;
        };
        server.serve(listener, stopped).await
    });
    Ok(Answering { shutdown, task })
}

/// Asks the supervisor of a cluster for the reports about its nodes.
///
/// # Errors
/// `Unavailable` if no supervisor answers in time, `Unsupported` from another machine.
pub async fn supervised_nodes(
    cluster: &ClusterFile,
    patience: Duration,
) -> Result<Vec<SupervisedReport>> {
    let session = Session::open(cluster.supervisor()?, SessionOptions::default());
    let answer = session.query(SUPERVISOR_SERVICE, "nodes", Bytes::new(), patience).await?;
    serde_json::from_slice(&answer).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("the supervisor's answer: {error}"))
    })
}
