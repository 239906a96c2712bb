//! Tests a class on Ceph that clients call through two gateways. The class changes to another
//! layout while the test kills a gateway, and a rollback restores the old layout. Clients get only
//! correct answers.
//!
//! The daemons are real. In one test the OSDs run the class's methods, in the other test the
//! gateways do.

mod common;

use std::sync::Arc;

use nacre::{Cluster, ClusterFile, Object, Sessions};
use nacre_class::CallsSeen;
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use nacre_node::gather_calls;
use nacre_node::{ClassLayout, Layouts};

use common::layouts::{
    LOOK_AGAIN, Orders, PATIENCE, PROGRAM, clients, end, is_settled, is_walking, keeper,
    layout_when, source,
};
use common::{RunningCluster, finish};

/// The number of objects. Moving them takes some seconds, so the test can kill a gateway meanwhile.
const OBJECTS: usize = 200;
const LAYOUT: &str = "kv: slots(768)";
const TWO_GATEWAYS: [&str; 2] = ["--targets", "2"];

/// What each gateway has counted, and what `nacre brados counts` says.
async fn counted(running: &RunningCluster) -> (Vec<u64>, u64) {
    let told = running.json(&["brados", "counts", "kv"])["requests"].as_u64().unwrap();
    let file = ClusterFile::read(running.folder()).unwrap();
    let gathered = gather_calls(&Sessions::new(&file).unwrap(), &file).await.into_iter();
    let each =
        gathered.map(|(_, calls)| calls.unwrap().classes.get("kv").map_or(0, CallsSeen::requests));
    (each.collect(), told)
}

/// Waits until both gateways have counted requests, and `nacre brados counts` adds them up.
async fn both_count(running: &RunningCluster) {
    let both = async {
        loop {
            let (each, told) = counted(running).await;
            assert!(told <= counted(running).await.0.iter().sum(), "{told} of {each:?}");
            if told > 0 && each.len() == 2 && each.iter().all(|requests| *requests > 0) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("both gateways count requests");
}

async fn gets_another_layout(options: &[&str]) {
    let ceph = CephCluster::start(&[&["--osds", "3", "--size", "2"], options].concat());
    let engine = format!("ceph:{}", ceph.conf().display());
    let folder = tempfile::tempdir().unwrap();
    let with_engine = [&["--engine", &engine], &TWO_GATEWAYS[..]].concat();
    let running = RunningCluster::start_with(folder.path(), &with_engine);
    let path = folder.path().join("kv.brados");
    std::fs::write(&path, PROGRAM).unwrap();
    running.run(&["program", "put", "class/kv", path.to_str().unwrap(), "--activate"]);
    let cluster = Cluster::connect(folder.path()).await.unwrap();
    let pool = cluster.pool("data").await.unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
    let orders = Arc::new(Orders { gets: 4.into(), ..Orders::default() });
    let clients = clients(&objects, 2, &orders);
    both_count(&running).await;

    let adopting = running.command(&["brados", "adopt", "kv", "--layout", LAYOUT]).spawn();
    layout_when(&cluster, "moved", is_walking).await;
    running.kill_node(&keeper(&cluster).await);
    layout_when(&cluster, "settled", |layout| layout.change.is_none()).await;
    // The command may fail, because its gateway was away for a moment.
    finish(adopting.unwrap(), "an adoption");
    assert!(source(&cluster).await.contains(&format!("\nlayout {LAYOUT}\n")));
    assert!(is_settled(&cluster, &objects).await);

    // A finished change can be rolled back, too.
    let adopted = Layouts::of(&cluster).get(&"kv".parse().unwrap()).await.unwrap().settled;
    running.run(&["program", "rollback", "class/kv"]);
    let is_back = |layout: &ClassLayout| layout.change.is_none() && layout.settled < adopted;
    layout_when(&cluster, "rolled back", is_back).await;
    assert!(source(&cluster).await.contains("\nlayout map\n"));
    assert!(is_settled(&cluster, &objects).await);
    end(clients, &orders).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_gateways_run_changes_its_layout_while_a_gateway_dies() {
    gets_another_layout(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_osds_run_changes_its_layout_while_a_gateway_dies() {
    let folder = ceph_plugin_folder();
    gets_another_layout(&["--class-dir", folder.to_str().unwrap()]).await;
}
