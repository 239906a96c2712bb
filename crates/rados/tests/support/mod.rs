//! One cluster for a whole test binary.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nacre_clock::SystemClock;
use nacre_conformance::{CephCluster, TestClasses};
use nacre_rados::{RadosEngine, RadosOptions};

/// The configuration of the binary's cluster, which goes with the binary: the pipe that holds it is
/// closed when the process ends.
pub fn conf() -> PathBuf {
    static CLUSTER: OnceLock<CephCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| CephCluster::start(&["--osds", "3"])).conf()
}

/// An engine on the binary's cluster.
pub async fn engine() -> RadosEngine {
    let options = RadosOptions { conf: Some(conf()), ..Default::default() };
    let clock = Arc::new(SystemClock::default());
    RadosEngine::connect(options, Arc::new(TestClasses), clock).await.expect("it can be reached")
}
