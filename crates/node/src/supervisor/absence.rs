//! Marks a node as down in the cluster's maps when the node fails to start and so cannot do this
//! itself.

use nacre::{Cluster, ClusterFile, NodeEntry};
use nacre_object::{NodeName, Result};

/// How many starts in a row must fail before the supervisor reports the node as down. The pauses
/// between these starts add up to three seconds. Most temporary causes pass in that time: a lock or
/// socket that the former process still holds, or other nodes that start at the same time. Commands
/// that wait for all nodes, such as `nacre program activate`, do so for up to 30 s. After the
/// report they no longer wait for this node.
const MAX_FAILED_STARTS: u32 = 5;

/// A node's failed starts in a row, and whether the node is marked as down.
#[derive(Debug)]
pub(super) struct Absence {
    cluster: ClusterFile,
    node: NodeEntry,
    failed_starts: u32,
    is_told: bool,
}

impl Absence {
    pub fn new(cluster: ClusterFile, node: NodeEntry) -> Self {
        Self { cluster, node, failed_starts: 0, is_told: false }
    }

    /// Call this when the node has served. It has then reported itself that it is up.
    pub fn is_over(&mut self) {
        (self.failed_starts, self.is_told) = (0, false);
    }

    /// The node ended and never served.
    pub fn start_failed(&mut self) {
        self.failed_starts = self.failed_starts.saturating_add(1);
    }

    /// Marks the node as down in the cluster, once, after enough starts have failed. The future may
    /// be dropped at any time; the next failed start tries again.
    pub async fn tell(&mut self) {
        if self.failed_starts >= MAX_FAILED_STARTS && !self.is_told {
            // The nodes that keep the cluster's maps may be away as well.
            self.is_told = self.mark_down().await.is_ok();
        }
    }

    async fn mark_down(&self) -> Result<()> {
        let name: NodeName = self.node.node_name()?;
        let cluster = Cluster::reach(&self.cluster)?;
        let known = cluster.nodes().list().await?;
        match known.into_iter().find(|known| known.name == name) {
            Some(known) => cluster.nodes().mark_down(&name, known.incarnation).await,
            None => Ok(()),
        }
    }
}
