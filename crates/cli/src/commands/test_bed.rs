//! Provides the store on which a test script runs: an engine in a scratch folder, or new pools in a
//! Ceph cluster.
//!
//! **Invariant:** a test never changes data of other users of a shared cluster. It replaces no
//! existing class, and removes everything that it creates: pools, their objects and the class.

use std::sync::{Mutex, PoisonError};

use nacre::{Cluster, ErrorKind, Object, Pool, ProgramId, Removal};
use nacre_clock::Random;
use nacre_node::LocalCluster;
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{ClassName, Error, PoolName, Result};
use nacre_rados::RadosOptions;
use tempfile::TempDir;

use crate::engine::Engine;

/// A cluster to test a class on.
pub struct TestBed {
    cluster: LocalCluster,
    class: ClassName,
    program: ProgramId,
    /// A random number that distinguishes this run's pools from those of all other runs.
    run: u64,
    /// The pools that were made.
    pools: Mutex<Vec<PoolName>>,
    /// The scratch folder of the embedded engine. Dropping it removes everything.
    scratch: Option<TempDir>,
}

impl TestBed {
    /// Opens a test bed for a class.
    ///
    /// # Errors
    /// `Exists` if the cluster has the class already; the engine's error if it cannot be reached.
    pub async fn open(engine: &Engine, class: &ClassName) -> Result<Self> {
        let (cluster, scratch) = match engine {
            Engine::Embedded => {
                let mut builder = tempfile::Builder::new();
                builder.permissions(nacre_files::folder_permissions());
                let folder = builder.tempdir().map_err(|error| {
                    Error::unavailable(format!("cannot make a scratch folder: {error}"))
                })?;
                (LocalCluster::embedded(folder.path()).await?, Some(folder))
            }
            Engine::Ceph(entry) => {
                (LocalCluster::ceph(entry.parse::<RadosOptions>()?).await?, None)
            }
        };
        let program: ProgramId = format!("class/{class}").parse()?;
        if let Err(error) = check_free(&cluster, &program).await {
            cluster.close().await;
            return Err(error);
        }
        let (class, pools, run) =
            (class.clone(), Mutex::default(), Random::from_system().next_u64());
        Ok(Self { cluster, class, program, run, pools, scratch })
    }

    /// The class.
    pub fn class(&self) -> &ClassName {
        &self.class
    }

    /// Makes a source the class; answers its version.
    pub async fn activate(&self, source: &str) -> Result<u64> {
        let programs = self.cluster.programs();
        let version = programs.put(&self.program, source).await?;
        programs.activate(&self.program, version).await?;
        Ok(version)
    }

    /// An empty pool.
    pub async fn pool(&self, label: &str) -> Result<Pool> {
        let name: PoolName = format!("test-{:016x}-{label}", self.run).parse()?;
        // Record the pool first, so that it is removed even if its creation is interrupted.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).push(name.clone());
        self.cluster.create_pool(&name).await?;
        self.cluster.pool(name.as_str()).await
    }

    /// Removes everything that the test created, and disconnects from the cluster.
    ///
    /// # Errors
    /// `Unavailable` if something could not be removed.
    pub async fn clear(self) -> Result<()> {
        let cleared = self.remove_all().await;
        self.cluster.close().await;
        cleared
    }

    async fn remove_all(&self) -> Result<()> {
        if self.scratch.is_some() {
            return Ok(());
        }
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        for name in pools {
            match self.cluster.pool(name.as_str()).await {
                Ok(pool) => empty(&pool).await?,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            self.cluster.remove_pool(&name).await?;
        }
        match self.cluster.programs().remove(&self.program, None, Removal::EvenIfActive).await {
            // It was never put.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Refuses a program that is there already.
async fn check_free(cluster: &Cluster, program: &ProgramId) -> Result<()> {
    match cluster.programs().get(program).await {
        Ok(_) => Err(Error::exists(format!("the cluster has {program} already"))
            .hint("test in a RADOS pool of its own, `…?pool=NAME`, or under another name")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

async fn empty(pool: &Pool) -> Result<()> {
    loop {
        let names = pool.list(None, "", MAX_LIST_ENTRIES).await?.names;
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            gone(&pool.object(name.as_str())?).await?;
        }
    }
}

/// Removes an object, unless it has removed itself meanwhile.
async fn gone(object: &Object) -> Result<()> {
    match object.remove().await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
