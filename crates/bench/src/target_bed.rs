//! `TargetBed`: a running cluster whose targets a bench makes slow. The targets are storage nodes, or
//! the OSDs of a Ceph cluster behind one gateway.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, RoleName};
use nacre_node::{STORAGE_SERVICE, SloTargets};
use nacre_object::{Locate, NodeName, ObjectId, PoolName, Result, TargetName};
use tempfile::TempDir;

use crate::bench::Setup;
use crate::scratch::{self, ScratchCluster};
use crate::slow_targets::OwnCeph;

/// Each gateway simulates the devices of OSDs for itself, so all IO must pass one gateway.
const GATEWAYS: usize = 1;
const GATEWAY: &str = "gateway.0";
/// How long a node may take to set the limit of a device.
const NODE_TIME: Duration = Duration::from_secs(10);

/// A running cluster. The fields are dropped in this order: the nodes end before the Ceph cluster that
/// keeps their data.
pub(crate) struct TargetBed {
    pub cluster: ScratchCluster,
    pub client: Cluster,
    located: SloTargets,
    /// The Ceph cluster that keeps the data; `None` if the nodes do.
    ceph: Option<OwnCeph>,
    folder: TempDir,
}

impl TargetBed {
    /// Starts a cluster with so many targets: on Ceph if `setup` names the script that starts Ceph
    /// clusters, otherwise of storage nodes.
    ///
    /// # Errors
    /// `Unavailable` if something does not start.
    pub async fn start(setup: &Setup, targets: usize) -> Result<Self> {
        match setup.ceph_cluster {
            Some(_) => Self::start_on_ceph(setup, targets).await,
            None => Self::start_nodes(setup, targets).await,
        }
    }

    /// Starts a cluster of storage nodes.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start_nodes(setup: &Setup, targets: usize) -> Result<Self> {
        let folder = scratch::folder(&setup.folder)?;
        let cluster = ScratchCluster::start(folder.path(), targets, &setup.program).await?;
        Self::new(folder, None, cluster).await
    }

    /// Starts a Ceph cluster, whose objects have one copy, and a gateway to it.
    ///
    /// # Errors
    /// `Invalid` if the user named no script that starts Ceph clusters; `Unavailable` if something
    /// does not start.
    pub async fn start_on_ceph(setup: &Setup, targets: usize) -> Result<Self> {
        let script = setup.ceph_script()?;
        let folder = scratch::folder(&setup.folder)?;
        let (base, program) = (folder.path(), &setup.program);
        let mut ceph = OwnCeph::start(script, base, targets, &[], setup.class_folder())?;
        ceph.ready().await?;
        let cluster =
            ScratchCluster::start_gateways(base, &ceph.options(), GATEWAYS, program).await?;
        Self::new(folder, Some(ceph), cluster).await
    }

    async fn new(folder: TempDir, ceph: Option<OwnCeph>, cluster: ScratchCluster) -> Result<Self> {
        let client = cluster.client().await?;
        let located = SloTargets::new(cluster.supervisor.cluster(), &client)?;
        Ok(Self { cluster, client, located, ceph, folder })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn is_on_ceph(&self) -> bool {
        self.ceph.is_some()
    }

    /// How many nodes have a switch.
    pub fn nodes(&self) -> usize {
        self.cluster.supervisor.cluster().with_role(RoleName::Storage).count()
    }

    /// The node whose switch and cache all IO on the objects of a target passes.
    pub fn node_of<'a>(&self, target: &'a TargetName) -> &'a str {
        if self.is_on_ceph() { GATEWAY } else { target.as_str() }
    }

    /// The target to which an object belongs.
    ///
    /// # Errors
    /// `Unavailable` if the gateway does not answer.
    pub async fn locate(&self, object: &ObjectId) -> Result<TargetName> {
        self.located.locate(object).await
    }

    /// All targets that keep objects of a pool, by name.
    ///
    /// # Errors
    /// As [`TargetBed::locate`].
    pub async fn targets(&self, pool: &str) -> Result<Vec<TargetName>> {
        if !self.is_on_ceph() {
            return Ok(self.client.store().targets());
        }
        let of_each = self.located.objects(&PoolName::new(pool)?, "any", 1).await?;
        Ok(of_each.into_keys().collect())
    }

    /// Limits a target to a number of requests a second.
    ///
    /// # Errors
    /// `Unavailable` if the node does not answer.
    pub async fn limit(&self, target: &TargetName, per_second: f64) -> Result<()> {
        let input = match self.is_on_ceph() {
            false => per_second.to_string(),
            true => format!("{target} {per_second}"),
        };
        let node = self.node(self.node_of(target))?;
        let transport = &self.client.log_env().sequencers;
        transport.ask(&node, STORAGE_SERVICE, "limit", Bytes::from(input), NODE_TIME).await?;
        Ok(())
    }

    fn node(&self, name: &str) -> Result<NodeName> {
        self.cluster.supervisor.cluster().node(name)?.node_name()
    }

    /// Ends every process of the nodes. The processes of Ceph end when the value is dropped.
    pub async fn stop(self) {
        self.cluster.stop().await;
    }
}
