//! The store on which the suite runs. Each test binary has its own.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_conformance::{CephCluster, MemoryStore};
use nacre_embedded::{EmbeddedEngine, Options};
use nacre_object::{Capabilities, ListPage, ListRequest, PoolName, Reply, Request, Result, Store};
use nacre_rados::{RadosEngine, RadosOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// What runs the methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodHost {
    /// The model, in this process.
    Memory,
    /// The embedded engine.
    Embedded,
    /// nacre's class in an OSD.
    OsdClass,
    /// Ceph's own class in an OSD.
    ClsLua,
}

impl MethodHost {
    /// The place of this binary.
    pub fn here() -> Self {
        match env!("CARGO_CRATE_NAME") {
            "on_embedded" => Self::Embedded,
            "on_osd_class" => Self::OsdClass,
            "on_cls_lua" => Self::ClsLua,
            _ => Self::Memory,
        }
    }

    /// Whether this process gets the log lines and faults of methods.
    pub fn is_within_earshot(self) -> bool {
        matches!(self, Self::Memory | Self::Embedded)
    }
}

/// Opens a store that runs the classes of `runtime`. If the store is the engine on Ceph, also
/// returns that engine.
pub fn open(
    runtime: Arc<ClassRuntime>,
    clock: Arc<dyn Clock>,
) -> (Arc<dyn Store>, Option<RadosEngine>) {
    match MethodHost::here() {
        MethodHost::Memory => (Arc::new(MemoryStore::new(runtime, clock)), None),
        MethodHost::Embedded => (Arc::new(Scratch::open(runtime, clock)), None),
        MethodHost::OsdClass => connect(&nacre_conformance::ceph_plugin_folder(), runtime, clock),
        MethodHost::ClsLua => connect(Path::new("/nowhere"), runtime, clock),
    }
}

/// An embedded engine in a folder that goes with it.
#[derive(Debug)]
struct Scratch {
    engine: EmbeddedEngine,
    _folder: TempDir,
}

impl Scratch {
    fn open(runtime: Arc<ClassRuntime>, clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { shards: 1, ..Options::new(folder.path(), runtime, clock) };
        Self { engine: EmbeddedEngine::open(options).unwrap(), _folder: folder }
    }
}

#[async_trait]
impl Store for Scratch {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.engine.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}

/// Connects with the binary's cluster, whose OSD offers the classes in a folder beside Ceph's.
fn connect(
    class_dir: &Path,
    runtime: Arc<ClassRuntime>,
    clock: Arc<dyn Clock>,
) -> (Arc<dyn Store>, Option<RadosEngine>) {
    static CLUSTER: OnceLock<CephCluster> = OnceLock::new();
    static TOKIO: OnceLock<Runtime> = OnceLock::new();
    static POOLS: AtomicU32 = AtomicU32::new(0);
    let class_dir = class_dir.to_str().unwrap();
    let cluster =
        CLUSTER.get_or_init(|| CephCluster::start(&["--osds", "1", "--class-dir", class_dir]));
    let tokio = TOKIO.get_or_init(|| Runtime::new().unwrap());
    let options = RadosOptions { conf: Some(cluster.conf()), ..Default::default() };
    let engine = tokio.block_on(RadosEngine::connect(options, runtime, clock)).unwrap();
    let pool = format!("suite-{}", POOLS.fetch_add(1, Ordering::Relaxed)).parse().unwrap();
    (Arc::new(Shared { engine: engine.clone(), pool, tokio }), Some(engine))
}

/// A cluster of all tests of a binary, of which each has a pool.
#[derive(Debug)]
struct Shared {
    engine: RadosEngine,
    pool: PoolName,
    tokio: &'static Runtime,
}

#[async_trait]
impl Store for Shared {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        request.header.object.pool = self.pool.clone();
        let engine = self.engine.clone();
        self.tokio.spawn(async move { engine.submit(request).await }).await.unwrap()
    }

    async fn list(&self, mut request: ListRequest) -> Result<ListPage> {
        request.pool = self.pool.clone();
        let engine = self.engine.clone();
        self.tokio.spawn(async move { engine.list(request).await }).await.unwrap()
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}
