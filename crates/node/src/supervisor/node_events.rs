//! Writes to the cluster log that a node ended, why it ended, and that it serves again.
//!
//! If a node ends again and again, each reason is written once a minute. The node that ended may be
//! the one that stores the cluster log, so events wait until the log accepts them.

use std::time::Duration;

use nacre::{Cluster, ClusterFile, Event, NodeEntry, Severity};
use nacre_object::{ErrorKind, NodeName, Result};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::complaints::Complaints;

/// How many events may wait for the cluster log. Further events are dropped; they would only repeat
/// that the same nodes ended.
const MAX_WAITING: usize = 64;
/// The pause before the cluster log is asked again. Each attempt already takes some seconds.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Writes events about one node to the cluster log.
#[derive(Debug)]
pub(super) struct NodeEvents {
    node: Option<NodeName>,
    told: Complaints,
    /// Whether the log already has an event that the node does not serve.
    is_told_of: bool,
    events: mpsc::Sender<Event>,
}

impl NodeEvents {
    /// Needs a tokio runtime.
    pub fn start(cluster: &ClusterFile, node: &NodeEntry) -> Self {
        let (events, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(append_all(cluster.clone(), waiting));
        let (node, told) = (node.node_name().ok(), Complaints::default());
        Self { node, told, is_told_of: false, events }
    }

    /// The node ended.
    pub fn ended(&mut self, reason: &str, now: Duration) {
        if self.told.is_due(reason, now) {
            self.is_told_of = true;
            self.tell(Severity::Warning, format!("the node ended: {reason}"));
        }
    }

    /// The node serves.
    pub fn serves(&mut self) {
        if std::mem::take(&mut self.is_told_of) {
            self.tell(Severity::Info, "the node serves again".to_owned());
        }
    }

    fn tell(&self, severity: Severity, text: String) {
        let event = Event::new(severity, text);
        let event = match &self.node {
            Some(node) => event.node(node.clone()),
            None => event,
        };
        // If the queue is full, the waiting events already report that the node fails.
        let _ = self.events.try_send(event);
    }
}

/// Appends each event, in order, until the sender is gone.
async fn append_all(cluster: ClusterFile, mut waiting: mpsc::Receiver<Event>) {
    while let Some(event) = waiting.recv().await {
        while let Err(error) = append(&cluster, &event).await {
            if error.kind() != ErrorKind::Unavailable || waiting.is_closed() {
                break;
            }
            sleep(TRY_AGAIN).await;
        }
    }
}

async fn append(cluster: &ClusterFile, event: &Event) -> Result<()> {
    Cluster::reach(cluster)?.events().append(event.clone()).await.map(drop)
}
