//! Tests outages on Ceph. One test kills gateways, OSDs and the monitor while clients append to a
//! log and call a class. Other tests damage a gateway's configuration, or stop the Ceph cluster
//! from answering.

mod common;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::appenders::{Appenders, check};
use common::{NACRE, RunningCluster, finish};
use nacre::{Cluster, Log, Object};
use nacre_conformance::CephCluster;
use nacre_conformance::wait::{eventually, eventually_blocking};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::{JoinHandle, block_in_place};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");
const GATEWAYS: [&str; 2] = ["gateway.0", "gateway.1"];
const OSDS: [&str; 3] = ["osd.0", "osd.1", "osd.2"];
/// Clients that call the class.
const CLIENTS: usize = 4;
/// Calls that are made between two faults.
const SOME: u64 = 100;

/// The replies that the clients of the class got.
#[derive(Default)]
struct Told {
    is_over: AtomicBool,
    calls: AtomicU64,
    /// Calls that failed, of which some may have happened.
    unknown_calls: AtomicU64,
}

impl Told {
    async fn count(self: Arc<Self>, object: Object) {
        while !self.is_over.load(Ordering::Relaxed) {
            let outcome = object.call("counter", "add", "1").await;
            let counted = if outcome.is_ok() { &self.calls } else { &self.unknown_calls };
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns when calls were made after this moment.
    async fn more(&self) {
        let before = self.calls.load(Ordering::Relaxed);
        let calls = || self.calls.load(Ordering::Relaxed);
        eventually("more calls are made", async || calls() >= before + SOME).await;
    }
}

/// A cluster's clients at work.
struct Load {
    appenders: Appenders,
    told: Arc<Told>,
    log: Log,
    object: Object,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    async fn start(cluster: &Cluster) -> Self {
        let log = cluster.log("l").await.unwrap();
        let object = cluster.pool("data").await.unwrap().object("count").unwrap();
        let told = Arc::<Told>::default();
        let count = |_| tokio::spawn(told.clone().count(object.clone()));
        let callers = (0..CLIENTS).map(count).collect();
        Self { appenders: Appenders::start(&log, "record"), told, log, object, callers }
    }

    /// Returns when records were appended and calls made after this moment.
    async fn more(&self) {
        tokio::join!(self.appenders.more(), self.told.more());
    }

    /// Ends the clients, and compares the stored data with the replies that the clients got.
    async fn check(self) {
        self.told.is_over.store(true, Ordering::Relaxed);
        futures::future::join_all(self.callers).await;
        check(&self.log, &self.appenders.end().await).await;

        let sum = self.object.call("counter", "add", "0").await.unwrap().output;
        let sum: u64 = String::from_utf8(sum.to_vec()).unwrap().parse().unwrap();
        let calls = self.told.calls.load(Ordering::Relaxed);
        let unknown = self.told.unknown_calls.load(Ordering::Relaxed);
        assert!((calls..=calls + unknown).contains(&sum), "{calls}, {unknown}: {sum}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_record_is_in_the_log_once_after_daemons_are_killed() {
    let ceph = CephCluster::start(&["--osds", "3", "--store", "bluestore", "--size", "2"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let arguments = ["--engine", &engine, "--targets", "2"];
    let up = |folder: usize| RunningCluster::start_with(folders[folder].path(), &arguments);
    let here = up(0);
    let source = folders[0].path().join("counter.lua");
    std::fs::write(&source, COUNTER).unwrap();
    here.run(&["program", "put", "class/counter", source.to_str().unwrap(), "--activate"]);
    here.run(&["log", "create", "l"]);
    let load = Load::start(&Cluster::connect(here.folder()).await.unwrap()).await;
    load.more().await;

    for gateway in GATEWAYS {
        block_in_place(|| here.kill_node(gateway));
        load.more().await;
    }
    let both = block_in_place(|| GATEWAYS.map(|gateway| here.pid_of(gateway).unwrap()));
    both.into_iter().for_each(common::kill);
    load.more().await;

    // The gateways of another folder use the same pool, and vanish without a report.
    let mut there = block_in_place(|| up(1));
    block_in_place(|| there.run_with_input(&["object", "put", "data/there"], "kept"));
    there.kill();
    assert_eq!(block_in_place(|| here.run(&["object", "get", "data/there"])), "kept");
    load.more().await;

    block_in_place(|| OSDS.iter().for_each(|osd| ceph.kill(osd)));
    block_in_place(|| OSDS.iter().for_each(|osd| ceph.restart(osd)));
    load.more().await;

    // Without a monitor, connected clients continue, and a client that wants to connect soon gets
    // the reason.
    ceph.kill("mon.a");
    load.more().await;
    let check = Command::new(NACRE).args(["ceph", "check", "--engine", &engine]).output();
    let said = String::from_utf8(block_in_place(|| check.unwrap()).stderr).unwrap();
    assert!(said.contains("no monitor of the cluster answers"), "{said}");
    ceph.restart("mon.a");
    load.more().await;
    load.check().await;
}

#[test]
fn a_gateway_with_a_spoiled_configuration_serves_again_once_it_is_repaired() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folder = tempfile::tempdir().unwrap();
    let cluster =
        RunningCluster::start_with(folder.path(), &["--engine", &engine, "--targets", "2"]);
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    let good = std::fs::read(ceph.conf()).unwrap();
    std::fs::write(ceph.conf(), b"\0rubbish\xff").unwrap();
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    for gateway in GATEWAYS {
        cluster.kill_node(gateway);
        let log = folder.path().join(format!("run/{gateway}.log"));
        eventually_blocking("the node says what it lacks", || {
            std::fs::read_to_string(&log).unwrap().contains("is not a configuration file of Ceph")
        });
        if gateway == GATEWAYS[0] {
            // The other gateway serves all objects, with the configuration that it read at its
            // start.
            assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
        }
    }
    std::fs::write(ceph.conf(), good).unwrap();
    eventually_blocking("every gateway is back", || {
        GATEWAYS.iter().all(|gateway| cluster.pid_of(gateway).is_some())
    });
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
}

#[test]
fn status_shows_a_silent_ceph_cluster_and_an_event_follows_once_it_answers() {
    let ceph = CephCluster::start(&["--osds", "1", "--store", "bluestore"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folder = tempfile::tempdir().unwrap();
    let cluster = RunningCluster::start_with(folder.path(), &["--engine", &engine]);
    assert!(!cluster.run(&["status"]).contains("silent"));
    ceph.kill("osd.0");
    eventually_blocking("the silence is shown", || {
        cluster.run(&["status"]).contains("Ceph silent since ")
    });
    ceph.restart("osd.0");
    eventually_blocking("the silence is told", || {
        cluster.run(&["events"]).contains("the Ceph cluster has not answered for ")
    });
    assert!(!cluster.run(&["status"]).contains("silent"));
}

#[test]
fn a_command_can_be_interrupted_while_the_ceph_cluster_is_silent() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folder = tempfile::tempdir().unwrap();
    let measuring = Command::new(NACRE)
        .args(["brados", "profile", "--seconds", "60", "--engine", &engine])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually_blocking("it measures", || {
        ceph.client("rados", &["-p", "nacre", "--all", "ls"]).contains("tuner")
    });
    // From now on nothing that is under way is answered.
    ceph.kill("osd.0");
    kill_process(Pid::from_raw(measuring.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let ended = finish(measuring, "an interrupted profile").status;
    assert_eq!(ended.code(), Some(128 + 2), "{ended}");
    assert!(!folder.path().join("brados-profile.json").exists());
}
