//! Tests two folders with gateways on one Ceph cluster, while clients append to one log through
//! both.

mod common;

use std::path::Path;

use common::RunningCluster;
use common::appenders::{Appenders, check};
use nacre::{Cluster, ClusterFile, Log};
use nacre_conformance::CephCluster;
use nacre_conformance::wait::within_deadline;
use tokio::task::block_in_place;

/// How often they may not have settled yet.
const ATTEMPTS: usize = 10;

/// The log, through a folder's nodes.
async fn log_of(folder: &Path) -> Log {
    Cluster::connect(folder).await.unwrap().log("l").await.unwrap()
}

async fn appenders_of(folder: &Path, name: &str) -> Appenders {
    Appenders::start(&log_of(folder).await, name)
}

/// Who hands out positions now, and since which view.
async fn sequencer(folder: &Path) -> (String, u64) {
    let cluster = Cluster::connect(folder).await.unwrap();
    let found = async {
        loop {
            // None before the first record.
            let view = cluster.log("l").await.unwrap().view();
            if let Some(sequencer) = view.sequencer() {
                return (sequencer.node.to_string(), sequencer.epoch);
            }
        }
    };
    within_deadline("the log has a sequencer", found).await
}

fn is_of(folder: &Path, node: &str) -> bool {
    let file = ClusterFile::read(folder).unwrap();
    file.nodes().iter().any(|entry| entry.node_name().unwrap().as_str() == node)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_folders_on_one_ceph_share_a_sequencer_and_one_continues_without_the_other() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let scratch = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let folders = [scratch[0].path(), scratch[1].path()];
    let mut running =
        folders.map(|folder| RunningCluster::start_with(folder, &["--engine", &engine]));
    block_in_place(|| running[0].run(&["log", "create", "l"]));
    let [a, b] = [appenders_of(folders[0], "a").await, appenders_of(folders[1], "b").await];

    let mut before = sequencer(folders[0]).await;
    let mut attempts = 0;
    let (holder, _) = loop {
        tokio::join!(a.more(), b.more());
        let now = sequencer(folders[1]).await;
        if now == before {
            break now;
        }
        before = now;
        attempts += 1;
        assert!(attempts < ATTEMPTS, "still handed over: {before:?}");
    };

    let gone = usize::from(is_of(folders[1], &holder));
    assert!(is_of(folders[gone], &holder), "{holder}");
    running[gone].kill();
    if gone == 0 {
        b.more().await
    } else {
        a.more().await
    }
    let (holder, _) = sequencer(folders[1 - gone]).await;
    assert!(is_of(folders[1 - gone], &holder), "{holder}");
    // Whoever appends through what is gone hears so in the end.
    let log = log_of(folders[1 - gone]).await;
    for told in [a.end().await, b.end().await] {
        check(&log, &told).await;
    }
}

/// Each folder has its own certificate authority, so its nodes cannot connect to those of the other
/// folder.
#[tokio::test(flavor = "multi_thread")]
async fn folders_whose_nodes_cannot_reach_each_other_take_turns_with_the_sequencer() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let running = [(); 2].map(|()| RunningCluster::start_tls_with(&["--engine", &engine]));
    let folders = [running[0].folder(), running[1].folder()];
    block_in_place(|| running[0].run(&["log", "create", "l"]));
    let [a, b] = [appenders_of(folders[0], "a").await, appenders_of(folders[1], "b").await];
    let (_, from) = sequencer(folders[0]).await;
    tokio::join!(a.more(), b.more());
    tokio::join!(a.more(), b.more());
    let (_, to) = sequencer(folders[0]).await;
    let told = [a.end().await, b.end().await];
    let [a, b] = told.each_ref().map(|told| told.len() as u64);
    println!("{a} and {b} records, {} views", to - from);
    assert!(a.min(b) > to - from);
    let log = log_of(folders[0]).await;
    for told in told {
        check(&log, &told).await;
    }
}

#[test]
fn a_vanished_node_can_be_forgotten_and_a_running_node_cannot() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let scratch = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [here, mut there] = [0, 1]
        .map(|folder| RunningCluster::start_with(scratch[folder].path(), &["--engine", &engine]));
    let names = [0, 1].map(|folder| {
        let file = ClusterFile::read(scratch[folder].path()).unwrap();
        file.nodes()[0].node_name().unwrap().to_string()
    });
    let forget = |node: &str| {
        let output = here.command(&["ceph", "forget", node]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (node, status, why) in [
        (names[0].as_str(), 2, "is a node of this folder"),
        (names[1].as_str(), 2, "is up"),
        ("gateway.7.12345678", 1, names[1].as_str()),
    ] {
        let (code, said) = forget(node);
        assert!(code == Some(status) && said.contains(why), "{node}: {code:?} {said}");
    }

    let source = scratch[0].path().join("counter.lua");
    std::fs::write(&source, include_str!("../../../programs/class/counter.lua")).unwrap();
    let put = ["program", "put", "class/counter", source.to_str().unwrap()];
    here.run(&put);
    there.vanish("gateway.0");
    here.run(&["program", "activate", "class/counter@1", "--no-wait"]);
    let waited =
        here.command(&["program", "wait", "class/counter", "1", "--timeout", "1"]).output();
    let said = String::from_utf8(waited.unwrap().stderr).unwrap();
    assert!(said.contains(&names[1]) && said.contains("nacre ceph forget"), "{said}");
    assert_eq!(forget(&names[1]), (Some(0), String::new()));
    here.run(&["program", "wait", "class/counter", "1"]);
}
