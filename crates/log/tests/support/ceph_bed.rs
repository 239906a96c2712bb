//! Stores on one Ceph cluster of real daemons. Each store has RADOS namespaces of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_conformance::{CephCluster, FaultyStore};
use nacre_rados::{RadosEngine, RadosOptions};

use crate::support::scoped::{Scoped, let_time_pass};

/// The class of its logs.
pub const CLASS: &str = nacre_log::NATIVE_CLASS;
/// Its method that writes what a client sends at a time.
pub const WRITES: &str = "write_batch";

/// The daemons, which go with the process.
fn ceph() -> &'static CephCluster {
    static CEPH: OnceLock<CephCluster> = OnceLock::new();
    CEPH.get_or_init(|| CephCluster::start(&["--osds", "3"]))
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
        FaultyStore::over_watched(Arc::new(Scoped::new(self.engine.clone(), scope)))
    }
}

/// The seeds of a test that tries `count` seeds in memory. With daemons, which are slower, the test
/// tries an eighth of them.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    nacre_conformance::seeds(count.div_ceil(8))
}
