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
use crate::layouts::{LayoutKeeper, Layouts};

/// A cluster whose classes and sequencers run in this process. Used like the [`Cluster`] that it holds. Cheap
/// to clone; the process serves the cluster until the last clone is dropped.
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
    /// A cluster kept in a folder; no daemon, no socket. One process at a time.
    ///
    /// # Errors
    /// `Unavailable` if another process has it open; `Corrupt` if what is there is damaged.
    pub async fn embedded(folder: impl AsRef<Path>) -> Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (node, parts) = LocalNode::open(folder.as_ref(), Arc::clone(&clock))?;
        Self::serve(node, parts, clock).await
    }

    /// The cluster that is kept in a pool of a Ceph cluster, with no daemon of nacre's: classes and
    /// sequencers run in this process, and in each other that does the same. To be ended with
    /// [`LocalCluster::close`].
    ///
    /// # Errors
    /// `Unsupported` where librados is not installed; `Invalid`, `Denied`, `NotFound` or, after
    /// seconds, `Unavailable`, each with what to check.
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

    /// Stops serving; nothing works any more after it. A process that ends without it leaves its watches
    /// behind in a Ceph cluster. For half a minute, a client that notifies the same objects or activates a
    /// program then waits for them. Takes three seconds at most, if Ceph does not answer.
    pub async fn close(&self) {
        self.node.leave(&self.cluster).await;
        self.node.close().await;
    }

    /// What classes in Brados were asked in this process, by name.
    pub fn calls_seen(&self) -> BTreeMap<String, CallsSeen> {
        self.node.calls_seen()
    }

    /// What tenants see of the process's target, and which promises are not kept.
    pub fn slo(&self) -> &NodeSlo {
        self.node.slo()
    }

    /// Does what nodes do for the layouts of running classes, in this process, until it is dropped.
    pub fn keep_layouts(&self) -> LayoutKeeper {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let (node, incarnation) = (self.node.name.clone(), clock.now_micros());
        LayoutKeeper::start(Layouts::of(&self.cluster), node, incarnation, clock)
    }
}

impl Deref for LocalCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}
