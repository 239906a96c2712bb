//! `Bed`: the running cluster on which `route-tail` measures. Its targets are storage nodes, or the
//! OSDs of a Ceph cluster behind one gateway.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use nacre::{Cluster, RoleName};
use nacre_node::{STORAGE_SERVICE, SloTargets};
use nacre_object::{Error, Locate, NodeName, ObjectId, PoolName, Result, TargetName};
use nacre_route::ROUTED_POOL;
use tempfile::TempDir;

use super::Limited;
use super::trace::VOLUMES;
use crate::bench::Setup;
use crate::scratch::{self, ScratchCluster};
use crate::slow_targets::OwnCeph;

/// Storage targets: three with a volume, and three that are idle outside the burst.
const TARGETS: usize = 6;
/// Each gateway simulates the devices of OSDs for itself, so all IO must pass one gateway.
const GATEWAYS: usize = 1;
const GATEWAY: &str = "gateway.0";
/// How long a node may take to set the limit of a device.
const NODE_TIME: Duration = Duration::from_secs(10);

/// A running cluster. The fields are dropped in this order: the nodes end before the Ceph cluster that
/// keeps their data.
pub(super) struct Bed {
    pub cluster: ScratchCluster,
    client: Cluster,
    located: SloTargets,
    /// The Ceph cluster that keeps the data; `None` if the nodes do.
    ceph: Option<OwnCeph>,
    folder: TempDir,
}

impl Bed {
    /// Starts a cluster of storage nodes.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start(setup: &Setup) -> Result<Self> {
        let folder = scratch::folder(&setup.folder)?;
        let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
        Self::new(folder, None, cluster).await
    }

    /// Starts a Ceph cluster, whose objects have one copy, and a gateway to it.
    ///
    /// # Errors
    /// `Invalid` if the user named no script that starts Ceph clusters; as [`Bed::start`].
    pub async fn start_on_ceph(setup: &Setup) -> Result<Self> {
        let script = setup.ceph_script()?;
        let folder = scratch::folder(&setup.folder)?;
        let (base, program) = (folder.path(), &setup.program);
        let mut ceph = OwnCeph::start(script, base, TARGETS, &[], setup.class_folder())?;
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

    /// How many nodes have a switch.
    pub fn nodes(&self) -> usize {
        self.cluster.supervisor.cluster().with_role(RoleName::Storage).count()
    }

    /// The target to which an object belongs.
    ///
    /// # Errors
    /// `Unavailable` if the gateway does not answer.
    pub async fn locate(&self, object: &ObjectId) -> Result<TargetName> {
        self.located.locate(object).await
    }

    async fn targets(&self) -> Result<Vec<TargetName>> {
        if self.ceph.is_none() {
            return Ok(self.client.store().targets());
        }
        let of_each = self.located.objects(&PoolName::new(super::POOL)?, "any", 1).await?;
        Ok(of_each.into_keys().collect())
    }

    /// The targets of the volumes. None of them keeps what the controller or the switch changes when
    /// rules change: an overloaded target would delay its own relief.
    ///
    /// # Errors
    /// `NotFound` if there are too few targets; as [`Bed::locate`].
    pub async fn volume_targets(&self) -> Result<Vec<TargetName>> {
        let kept = match self.ceph {
            None => {
                ["routes", "route-control"].map(|map| format!("nacre.system/map/{map}")).to_vec()
            }
            // A simulated device does not delay requests on maps.
            Some(_) => vec![format!("{ROUTED_POOL}/record")],
        };
        let mut targets = self.targets().await?;
        for object in kept {
            let keeper = self.locate(&object.parse()?).await?;
            targets.retain(|target| *target != keeper);
        }
        targets.truncate(VOLUMES);
        match targets.len() == VOLUMES {
            true => Ok(targets),
            false => Err(Error::not_found("the cluster has too few targets for this bench")),
        }
    }

    /// Limits targets to a number of requests a second.
    ///
    /// # Errors
    /// As [`Bed::locate`].
    pub async fn limit(
        &self,
        limited: Limited,
        bursting: &TargetName,
        per_second: f64,
    ) -> Result<()> {
        for target in self.targets().await? {
            if limited == Limited::All || target == *bursting {
                self.limit_one(&target, per_second).await?;
            }
        }
        Ok(())
    }

    async fn limit_one(&self, target: &TargetName, per_second: f64) -> Result<()> {
        let (node, input) = match self.ceph {
            None => (self.node(target.as_str())?, per_second.to_string()),
            Some(_) => (self.node(GATEWAY)?, format!("{target} {per_second}")),
        };
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
