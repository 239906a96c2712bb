//! A cluster of real processes for the time of a bench.

use std::path::{Path, PathBuf};

use nacre::{Cluster, ClusterFile};
use nacre_node::Supervisor;
use nacre_object::{Error, Result};
use tempfile::TempDir;

/// Makes a scratch folder in `base`; it goes with the value.
///
/// # Errors
/// `Unavailable` if `base` cannot be written.
pub(crate) fn folder(base: &Path) -> Result<TempDir> {
    tempfile::Builder::new().prefix("nacre-bench.").tempdir_in(base).map_err(|error| {
        Error::unavailable(format!("cannot make a scratch folder in {}: {error}", base.display()))
            .hint("name a writable folder with --folder")
    })
}

/// A running cluster.
#[derive(Debug)]
pub(crate) struct ScratchCluster {
    pub supervisor: Supervisor,
    folder: PathBuf,
}

impl ScratchCluster {
    /// Starts a cluster of `targets` storage nodes and a metadata node, each a process.
    ///
    /// # Errors
    /// `Unavailable` if a node does not start.
    pub async fn start(folder: &Path, targets: usize, program: &Path) -> Result<Self> {
        let folder = folder.join("cluster");
        let file = ClusterFile::create(&folder, targets)?;
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

    /// Ends every process.
    pub async fn stop(mut self) {
        self.supervisor.stop().await;
    }
}
