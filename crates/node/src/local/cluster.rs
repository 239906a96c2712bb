//! `LocalCluster`: a cluster, and the node in this process that serves it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use nacre::{Cluster, Parts};
use nacre_class::CallsSeen;
use nacre_clock::{Clock, SystemClock};
use nacre_object::Result;
use nacre_rados::RadosOptions;
use nacre_slo::NodeSlo;

use super::node::LocalNode;
use crate::layouts::{LayoutTask, Layouts};

/// A cluster whose classes and sequencers run in this process. It dereferences to [`Cluster`], so
/// programs use it in the same way. It is cheap to clone; the process serves the cluster until the
/// last clone is dropped.
#[derive(Clone)]
pub struct LocalCluster {
    cluster: Cluster,
    node: Arc<LocalNode>,
}

impl fmt::Debug for LocalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCluster").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl LocalCluster {
    /// Opens a cluster that is stored in a folder, without a daemon or a socket. Only one process
    /// at a time can have the cluster open.
    ///
    /// # Errors
    /// `Unavailable` if another process has the cluster open; `Corrupt` if its data is damaged.
    pub async fn embedded(folder: impl AsRef<Path>) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (node, parts) = LocalNode::open(folder.as_ref(), Arc::clone(&clock))?;
        Self::serve(node, parts, clock).await
    }

    /// Opens a cluster that is stored in a pool of a Ceph cluster, without a daemon of nacre.
    /// Classes and sequencers run in this process, and in every other process that opens the same
    /// pool. Call [`LocalCluster::close`] at the end.
    ///
    /// # Errors
    /// `Unsupported` if librados is not installed; `Invalid`, `Denied`, `NotFound` or, after some
    /// seconds, `Unavailable`. Each error says what to check.
    pub async fn ceph(options: RadosOptions) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (node, parts) = LocalNode::connect(options, Arc::clone(&clock)).await?;
        Self::serve(node, parts, clock).await
    }

    async fn serve(node: LocalNode, parts: Parts, clock: Arc<dyn Clock>) -> Result<Self> {
        let local = Self { cluster: Cluster::assemble(parts)?, node: Arc::new(node) };
        let began = async {
            local.node.serve(&local.cluster, clock).await?;
            local.cluster.create_default_pools().await
        };
        if let Err(error) = began.await {
            local.close().await;
            return Err(error);
        }
        Ok(local)
    }

    /// Stops serving. The cluster cannot be used afterwards. This takes three seconds at most, even
    /// if Ceph does not answer.
    ///
    /// A process that ends without this call leaves its watches behind in a Ceph cluster. For half
    /// a minute, Ceph takes that process for a live watcher. Clients that notify the same objects
    /// or activate a program must wait for it until then.
    pub async fn close(&self) {
        self.node.leave(&self.cluster).await;
        self.node.close().await;
    }

    /// Counts of the calls of classes in Brados in this process, by class name.
    pub fn calls_seen(&self) -> BTreeMap<String, CallsSeen> {
        self.node.calls_seen()
    }

    /// The latencies of tenants at the process's target, and the missed promises.
    pub fn slo(&self) -> &NodeSlo {
        self.node.slo()
    }

    /// Runs a layout task in this process, until it is dropped.
    pub fn keep_layouts(&self) -> LayoutTask {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (node, incarnation) = (self.node.name.clone(), clock.now_micros());
        LayoutTask::start(Layouts::of(&self.cluster), node, incarnation, clock)
    }
}

impl Deref for LocalCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}
