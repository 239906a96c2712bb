//! Clusters and engines for tests.

#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use nacre_clock::SystemClock;
use nacre_conformance::{CephCluster, Subject, TestClasses};
use nacre_object::Result;
use nacre_rados::{RadosEngine, RadosOptions};

/// The Ceph cluster that the tests of this binary share. It stops when the test binary ends,
/// because the pipe that keeps the cluster alive closes then.
pub fn cluster() -> &'static CephCluster {
    static CLUSTER: OnceLock<CephCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| CephCluster::start(&["--osds", "3"]))
}

/// Its configuration.
pub fn conf() -> PathBuf {
    cluster().conf()
}

/// How to reach the cluster of a configuration.
pub fn options(conf: PathBuf) -> RadosOptions {
    RadosOptions { conf: Some(conf), ..Default::default() }
}

/// An engine with these options.
pub async fn connect(options: RadosOptions) -> Result<RadosEngine> {
    RadosEngine::connect(options, Arc::new(TestClasses), Arc::new(SystemClock::default())).await
}

/// An engine on the binary's cluster.
pub async fn engine() -> RadosEngine {
    connect(options(conf())).await.expect("the cluster can be reached")
}

/// A connection of its own with the binary's cluster, in this pool.
pub async fn subject(pool: &str) -> Subject {
    Subject::watched(Arc::new(engine().await)).in_pool(pool.parse().expect("a pool's name"))
}
