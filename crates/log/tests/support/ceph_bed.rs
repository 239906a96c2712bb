//! Stores on one Ceph cluster of real daemons, each in RADOS namespaces of its own.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_conformance::{CephCluster, FaultyStore};
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, PoolName, Reply, Request, Result, Store, Watch,
    WatchStream,
};
use nacre_rados::{RadosEngine, RadosOptions};

/// The daemons, which go with the process.
fn ceph() -> &'static CephCluster {
    static CEPH: OnceLock<CephCluster> = OnceLock::new();
    CEPH.get_or_init(|| CephCluster::start(&["--osds", "3"]))
}

/// Daemons do not wait for virtual time. A test has a thread of its own, and its time is let go once.
fn let_time_pass() {
    thread_local!(static PASSES: Cell<bool> = const { Cell::new(false) });
    if !PASSES.replace(true) {
        tokio::time::resume();
    }
}

/// Makes the stores of one cluster: one connection with Ceph.
pub struct Bed {
    engine: RadosEngine,
    number: u64,
}

impl Bed {
    pub async fn new(classes: Arc<ClassRuntime>, clock: Arc<dyn Clock>) -> Self {
        Self::on(ceph(), classes, clock).await
    }

    /// On a cluster that is not shared.
    pub async fn on(ceph: &CephCluster, classes: Arc<ClassRuntime>, clock: Arc<dyn Clock>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let options = RadosOptions { conf: Some(ceph.conf()), ..Default::default() };
        // The daemons do not know of virtual time.
        let_time_pass();
        let engine = RadosEngine::connect(options, classes, clock).await.unwrap();
        Self { engine, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// A store of its own.
    pub fn store(&self, name: &str) -> FaultyStore {
        let scope = format!("{}-{name}-", self.number);
        FaultyStore::over_watched(Arc::new(Scoped { engine: self.engine.clone(), scope }))
    }
}

/// The seeds of a test that elsewhere tries so many: daemons are slower than memory.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    nacre_conformance::seeds(count.div_ceil(8))
}

/// A store whose pools are an engine's, each under another name.
#[derive(Debug)]
struct Scoped {
    engine: RadosEngine,
    scope: String,
}

impl Scoped {
    fn pool(&self, pool: &PoolName) -> Result<PoolName> {
        PoolName::new(format!("{}{pool}", self.scope))
    }

    fn object(&self, object: &ObjectId) -> Result<ObjectId> {
        Ok(ObjectId::new(self.pool(&object.pool)?, object.name.clone()))
    }
}

#[async_trait]
impl Store for Scoped {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        request.header.object = self.object(&request.header.object)?;
        self.engine.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(ListRequest { pool: self.pool(&request.pool)?, ..request }).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}

#[async_trait]
impl Watch for Scoped {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.engine.watch(&self.object(object)?).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.engine.notify(&self.object(object)?, payload).await
    }
}
