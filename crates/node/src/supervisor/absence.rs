//! Tells the cluster that a node is down when the node does not start any more and so cannot say it
//! itself.

use nacre::{Cluster, ClusterFile, NodeEntry};
use nacre_object::{NodeName, Result};

/// How many starts in a row must fail before the node is reported as down. The pauses between them
/// take three seconds, which is enough for temporary causes to pass. Examples are a lock or socket
/// that the former process still held, and other nodes that start at the same time. After the
/// report, a caller that waits for all nodes (30 s, `nacre program activate`) need not wait for
/// this one.
const MAX_FAILED_STARTS: u32 = 5;

/// A node's failed starts in a row, and whether the cluster was told.
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

    /// The node served. Then it has said itself that it is up.
    pub fn is_over(&mut self) {
        (self.failed_starts, self.is_told) = (0, false);
    }

    /// The node ended and never served.
    pub fn start_failed(&mut self) {
        self.failed_starts = self.failed_starts.saturating_add(1);
    }

    /// Tells the cluster that the node is down, once enough starts have failed and unless it was
    /// told already. The future may be dropped at any moment; the next failed start tries again.
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
