//! Checks that the histories of concurrent clients of one cluster are linearizable, even if answers
//! are lost.

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use nacre_conformance::faults::{FaultOdds, seeded};
use nacre_conformance::histories::{ObjectModel, check};
use nacre_conformance::workloads::use_object;
use nacre_conformance::{CephCluster, FaultyStore, ceph_plugin_folder, seeds};
use nacre_object::Store;

/// Each client has a connection of its own, so transactions overtake each other.
const CLIENTS: usize = 4;
const CALLS: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_concurrent_clients_are_linearizable() {
    have_an_order(support::conf()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_of_methods_inside_the_osds_are_linearizable() {
    let class_dir = ceph_plugin_folder();
    let class_dir = class_dir.to_str().unwrap();
    let cluster = CephCluster::start(&["--osds", "3", "--class-dir", class_dir]);
    let inside = have_an_order(cluster.conf()).await;
    assert!(inside > 0, "nothing ran there");
}

/// Checks histories on a cluster; returns how many requests were run inside OSDs.
async fn have_an_order(conf: PathBuf) -> u64 {
    let mut engines = Vec::new();
    for _ in 0..CLIENTS {
        engines.push(support::connect(support::options(conf.clone())).await.unwrap());
    }
    let odds = FaultOdds { fail_before: 40, fail_after: 25, lose_event: 0 };
    let mut unknown = 0;
    for seed in seeds(20) {
        let lossy = |(n, engine): (usize, &nacre_rados::RadosEngine)| {
            let lossy = FaultyStore::over(Arc::new(engine.clone()));
            lossy.follow(seeded(seed * 100 + n as u64, odds));
            Arc::new(lossy) as Arc<dyn Store>
        };
        let stores: Vec<_> = engines.iter().enumerate().map(lossy).collect();
        let object = format!("histories/seed-{seed}").parse().unwrap();
        let history = use_object(&stores, &object, seed, CALLS).await;
        unknown += history.iter().filter(|operation| operation.answer.is_none()).count();
        check::<ObjectModel>(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    assert!(unknown > 0, "nothing was lost");
    engines.iter().map(|engine| engine.osd_counts().by_plugin).sum()
}
