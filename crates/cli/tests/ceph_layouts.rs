//! A class that Ceph keeps, called through two gateways, gets another layout when what it is asked has
//! changed, with a gateway killed meanwhile, and comes back when it is rolled back; its clients' answers are
//! right throughout. Real daemons, whose OSDs leave the class's methods to the gateways or run them.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nacre::{ClassLayout, Cluster, ClusterFile, Object, Sessions};
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use nacre_node::gather_calls;
use nacre_tuner::rechoose::Reason;
use nacre_tuner::{Access, Profile};

use common::layouts::{
    ANY_GAIN, DEAR_SECONDS, LOOK_AGAIN, Orders, PATIENCE, PROGRAM, clients, end, is_settled,
    is_walking, keeper, layout_when, profile, source, terms,
};
use common::{NACRE, RunningCluster, finish};

/// So many that moving them takes some seconds, in which a gateway is killed.
const OBJECTS: usize = 200;
/// Where Ceph keeps it all, unless an engine's name says otherwise.
const POOL: &str = "nacre";
const TWO_GATEWAYS: [&str; 2] = ["--targets", "2"];

/// Measures the OSDs for as short as can be, and has the cluster judge by that.
fn keep_profile(running: &RunningCluster, engine: &str) -> Profile {
    let path = running.folder().join("profile.json");
    let measured = Command::new(NACRE)
        .args(["brados", "profile", "--keep", "--seconds", "0.05", "--engine", engine])
        .args(["--profile", path.to_str().unwrap()])
        .env("NACRE_CLUSTER", running.folder())
        .output()
        .unwrap();
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    Profile::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What each gateway has counted, and what `nacre brados counts` says.
async fn counted(running: &RunningCluster) -> (Vec<u64>, u64) {
    let told = running.json(&["brados", "counts", "kv"])["requests"].as_u64().unwrap();
    let file = ClusterFile::read(running.folder()).unwrap();
    let gathered = gather_calls(&Sessions::new(&file).unwrap(), &file).await.into_iter();
    let each = gathered.map(|(_, calls)| calls.unwrap().classes["kv"].requests());
    (each.collect(), told)
}

/// Waits until nothing is left that was measured with: where the mix still drifts after a proposal, it is
/// measured again.
async fn is_clean(ceph: &CephCluster) {
    let waiting = async {
        while ceph.client("rados", &["-p", POOL, "--all", "ls"]).contains("tuner") {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("what is measured with is removed");
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
    let measured = keep_profile(&running, &engine);
    assert_eq!(cluster.layouts().profile().await.unwrap(), Some(measured.clone()));
    let steered = profile(&measured.engine, &[Access::MapSet], DEAR_SECONDS);
    cluster.layouts().keep_profile(&steered).await.unwrap();
    let class = "kv".parse().unwrap();
    cluster.layouts().allow(&class, false, Some(terms(ANY_GAIN))).await.unwrap();
    // Somebody was killed while measuring.
    let left = ["-p", POOL, "-N", "tuner.beside", "put", "left", "/dev/null"];
    ceph.client("rados", &left);

    // Rows are looked at: as good as any layout is the one that there is.
    let pool = cluster.pool("data").await.unwrap();
    let objects: Vec<Object> =
        (0..OBJECTS).map(|at| pool.object(&format!("o{at}")).unwrap()).collect();
    let orders = Arc::new(Orders { gets: 8.into(), ..Orders::default() });
    let clients = clients(&objects, 2, &orders);
    // Where many are put in the beginning, that is no longer so soon.
    let is_content = |layout: &ClassLayout| {
        layout.standing.basis.is_some() && layout.standing.proposal.is_none()
    };
    layout_when(&cluster, "judged", is_content).await;
    let (each, told) = counted(&running).await;
    assert!(each.len() == 2 && each.iter().all(|requests| *requests > 0), "{each:?}");
    assert!((1..=each.iter().sum()).contains(&told), "{told} of {each:?}");

    // Now they are put.
    orders.gets.store(1, Ordering::Relaxed);
    let known =
        layout_when(&cluster, "proposed", |layout| layout.standing.proposal.is_some()).await;
    let proposal = known.standing.proposal.unwrap();
    assert!(matches!(proposal.reason, Reason::Mix(drift) if drift > 0.15), "{proposal}");
    assert!(proposal.measured.is_some(), "{proposal}");
    is_clean(&ceph).await;
    assert_eq!(source(&cluster).await, PROGRAM, "nothing is done that was not allowed");

    let adopting = running.command(&["brados", "adopt", "kv"]).spawn();
    let moving = layout_when(&cluster, "moved", is_walking).await.change.unwrap();
    let layout = moving.layout;
    assert!(layout.contains("kv: slots(") || layout.contains("kv: appended("), "{layout}");
    running.kill_node(&keeper(&cluster).await);
    layout_when(&cluster, "settled", |layout| layout.change.is_none()).await;
    // It may have been told that the gateway it asked is away.
    finish(adopting.unwrap(), "an adoption");
    assert!(source(&cluster).await.contains(&format!("\nlayout {layout}\n")));
    assert!(is_settled(&cluster, &objects).await);

    // At its end as well it can be taken back.
    let adopted = cluster.layouts().get(&class).await.unwrap().settled;
    running.run(&["program", "rollback", "class/kv"]);
    let is_back = |layout: &ClassLayout| layout.change.is_none() && layout.settled < adopted;
    layout_when(&cluster, "rolled back", is_back).await;
    assert!(source(&cluster).await.contains("\nlayout map\n"));
    assert!(is_settled(&cluster, &objects).await);
    end(clients, &orders).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_gateways_run_gets_another_layout_while_it_is_called_and_one_dies() {
    gets_another_layout(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_class_that_osds_run_gets_another_layout_while_it_is_called_and_a_gateway_dies() {
    let folder = ceph_plugin_folder();
    gets_another_layout(&["--class-dir", folder.to_str().unwrap()]).await;
}
