//! A cluster of real processes for the time of a bench.

use std::path::{Path, PathBuf};

use nacre::{Cluster, ClusterFile, Layout};
use nacre_node::{NodeState, Supervisor};
use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use tempfile::TempDir;

use crate::bench::Setup;
use crate::processes::Processes;
use crate::redis_server::RedisServer;

/// Makes a scratch folder in `base`. The folder is removed when the returned value is dropped.
///
/// # Errors
/// `Unavailable` if `base` cannot be written.
pub(crate) fn folder(base: &Path) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("nacre-bench.").permissions(nacre_files::folder_permissions());
    builder.tempdir_in(base).map_err(|error| {
        Error::unavailable(format!("cannot make a scratch folder in {}: {error}", base.display()))
            .hint("name a writable folder with --folder")
    })
}

/// A cluster and a Redis server on the same disk, to compare them. The cluster has one storage
/// target, because the machine has one disk.
#[derive(Debug)]
pub(crate) struct BesideRedis {
    pub cluster: ScratchCluster,
    pub redis: RedisServer,
    pub folder: TempDir,
}

impl BesideRedis {
    /// Starts both.
    ///
    /// # Errors
    /// `Unavailable` if one does not start.
    pub async fn start(setup: &Setup) -> Result<Self> {
        let folder = folder(&setup.folder)?;
        let cluster = ScratchCluster::start(folder.path(), 1, &setup.program).await?;
        let redis = RedisServer::start(folder.path()).await?;
        Ok(Self { cluster, redis, folder })
    }

    /// Ends both.
    pub async fn stop(self) {
        self.redis.stop().await;
        self.cluster.stop().await;
    }
}

/// A running cluster.
#[derive(Debug)]
pub(crate) struct ScratchCluster {
    pub supervisor: Supervisor,
    folder: PathBuf,
}

impl ScratchCluster {
    /// Starts a cluster of `targets` storage nodes and one metadata node, each in a process of its
    /// own.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start(folder: &Path, targets: usize, program: &Path) -> Result<Self> {
        let layout = Layout {
            engine: None,
            storage: targets,
            metadata: 1,
            addresses: vec![],
            sockets: true,
        };
        Self::start_as(folder, &layout, program).await
    }

    /// Starts a cluster with one storage node and `nodes` metadata nodes, each in a process of its
    /// own.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start_with_metadata(folder: &Path, nodes: usize, program: &Path) -> Result<Self> {
        let layout =
            Layout { engine: None, storage: 1, metadata: nodes, addresses: vec![], sockets: true };
        Self::start_as(folder, &layout, program).await
    }

    /// Starts `nodes` gateways: nodes that serve the objects of a Ceph cluster.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start_gateways(
        folder: &Path,
        options: &RadosOptions,
        nodes: usize,
        program: &Path,
    ) -> Result<Self> {
        let engine = Some(options.to_string());
        let layout =
            Layout { engine, storage: nodes, metadata: 1, addresses: vec![], sockets: true };
        Self::start_as(folder, &layout, program).await
    }

    async fn start_as(folder: &Path, layout: &Layout, program: &Path) -> Result<Self> {
        let folder = folder.join("cluster");
        let file = ClusterFile::lay_out(&folder, layout)?;
        let supervisor = Supervisor::start(file, program, 0).await?;
        let cluster = Self { supervisor, folder };
        cluster.client().await?.create_default_pools().await?;
        Ok(cluster)
    }

    /// A client with sessions of its own.
    ///
    /// # Errors
    /// As [`Cluster::connect`].
    pub async fn client(&self) -> Result<Cluster> {
        Cluster::connect(&self.folder).await
    }

    /// The processes of its nodes.
    pub fn processes(&self) -> Processes {
        let ids = self.supervisor.states().into_iter().filter_map(|(_, state)| match state {
            NodeState::Up { pid } => Some(pid),
            _ => None,
        });
        Processes::with_ids(ids)
    }

    /// Ends every process.
    pub async fn stop(mut self) {
        self.supervisor.stop().await;
    }
}
