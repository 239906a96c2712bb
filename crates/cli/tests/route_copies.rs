//! Copies of objects for reads, on a cluster of real processes, which are killed.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::routes::{cluster, kill_in_turn, number, places, put, rules, status};
use common::{RunningCluster, kill, shipped};
use nacre::{Cluster, ClusterFile, ErrorKind, Object, Sessions};
use nacre_conformance::wait::{eventually, eventually_blocking};
use nacre_node::ROUTE_SERVICE;
use serde_json::Value;
use tokio::task::JoinHandle;

/// The bytes of an object that readers check.
const OBJECT_BYTES: usize = 3 * 1024 * 1024 + 8;
/// Readers of each object.
const READERS: usize = 3;

fn of_copies(cluster: &RunningCluster, target: &str, name: &str) -> Option<u64> {
    status(cluster, target).and_then(|status| status["copies"][name].as_u64())
}

fn reads_at(cluster: &RunningCluster, home: &str, target: &str) -> u64 {
    let status = status(cluster, home).unwrap();
    status["copies"]["reads"][target].as_u64().unwrap_or(0)
}

/// Reads the object until its copy serves reads.
async fn until_copied(cluster: &RunningCluster, object: &Object, home: &str) {
    eventually("there is a current copy", async || {
        object.read(0, 1).await.unwrap();
        of_copies(cluster, home, "current") == Some(1)
    })
    .await;
}

/// The objects of `home` of which a node keeps copies.
async fn kept_copies(cluster: &RunningCluster, node: &str, home: &str) -> Vec<String> {
    let file = ClusterFile::read(cluster.folder()).unwrap();
    let sessions = Sessions::new(&file).unwrap();
    let ask = serde_json::json!({ "home_target": home, "after": null });
    let input = Bytes::from(ask.to_string());
    let session = sessions.session(node).unwrap();
    let patience = Duration::from_secs(10);
    let answer = session.ask(ROUTE_SERVICE, "copies", input, patience).await.unwrap();
    let list: Value = serde_json::from_slice(&answer).unwrap();
    list["homes"].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_go_to_copies_and_every_change_is_seen_at_once() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let name = format!("data/{}", names[0]);
    let object = client.object(&name.parse().unwrap()).await.unwrap();
    object.write_full("0123456789").await.unwrap();
    // The rule does not name the home, so all reads go to the copy once there is one.
    put(
        &cluster,
        folder.path(),
        &format!("application hot on {home}\n  * r data/r* -> one {away} least-loaded\n"),
    );
    let trace = || cluster.json(&["route", "trace", "r", &name, "0..4"]);
    assert_eq!(trace()[0]["copies"][0]["is_current"], false);
    until_copied(&cluster, &object, &home).await;
    assert_eq!(trace()[0]["copies"][0]["is_current"], true);
    assert!(cluster.run(&["route", "trace", "r", &name]).contains(&format!("{away} (current)")));
    let before = reads_at(&cluster, &home, &away);
    assert_eq!(object.read(2, 3).await.unwrap(), "234");
    assert_eq!(cluster.run(&["object", "get", &name]), "0123456789");
    assert_eq!(cluster.json(&["object", "stat", &name])["size"], 10);
    assert_eq!(reads_at(&cluster, &home, &away), before + 2);
    assert_eq!(of_copies(&cluster, &home, "bytes"), Some(10));

    let seen = async |expected: &str| {
        assert_eq!(object.read(0, 100).await.unwrap(), expected);
        until_copied(&cluster, &object, &home).await;
        let before = reads_at(&cluster, &home, &away);
        assert_eq!(object.read(0, 100).await.unwrap(), expected);
        assert_eq!(reads_at(&cluster, &home, &away), before + 1, "a copy of the new state serves");
    };
    object.write(4, "wxyz").await.unwrap();
    seen("0123wxyz89").await;
    object.truncate(3).await.unwrap();
    seen("012").await;
    let snapshot = "before".parse().unwrap();
    object.snapshot(snapshot).await.unwrap();
    object.append("end").await.unwrap();
    seen("012end").await;
    let old = object.at("before".parse().unwrap());
    assert_eq!(old.read(0, 9).await.unwrap(), "012", "a snapshot is read at the home");
    let script = "function f() local b = bufferlist.new() b:append('by a method') \
                  objclass.write(0, 11, b) end objclass.register(f)";
    object.eval(script, "f", "").await.unwrap();
    seen("by a method").await;
    object.rollback("before".parse().unwrap()).await.unwrap();
    seen("012").await;
    object.remove().await.unwrap();
    assert_eq!(object.read(0, 9).await.unwrap_err().kind(), ErrorKind::NotFound);
    object.write_full("again").await.unwrap();
    seen("again").await;

    let scrubbed = cluster.run(&["scrub", "--json"]);
    assert!(!scrubbed.contains("holder"), "copies lie where their names say: {scrubbed}");
    assert_eq!(kept_copies(&cluster, &away, &home).await, std::slice::from_ref(&name));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_application_replicas_copies_an_object_that_is_only_read_until_it_is_written() {
    let (_folder, cluster) = cluster();
    let (names, home, _) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let name = format!("data/{}", names[0]);
    let object = client.object(&name.parse().unwrap()).await.unwrap();
    object.write_full("hot").await.unwrap();
    let program = shipped("control/replicas.lua");
    cluster.run(&["program", "put", "control/replicas", &program, "--activate"]);
    let settings = ["--set", "read_only_seconds=1", "--set", "least_reads=1"];
    cluster.run(&[&["route", "start", "replicas", "--every", "0.2"][..], &settings].concat());
    let rules = || cluster.run(&["route", "ls", "--json"]);
    eventually("a rule spreads the reads", async || {
        object.read(0, 3).await.unwrap();
        rules().contains(&format!("* r {name} -> one {home},"))
    })
    .await;
    eventually("two other targets serve reads", async || {
        object.read(0, 3).await.unwrap();
        of_copies(&cluster, &home, "current") == Some(2)
    })
    .await;
    object.write_full("new").await.unwrap();
    assert_eq!(object.read(0, 3).await.unwrap(), "new");
    eventually("the rule ends", async || rules().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_dropped_with_their_rule_and_after_a_restart_of_the_home() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.object(&format!("data/{}", names[0]).parse().unwrap()).await.unwrap();
    object.write_full("hot").await.unwrap();
    put(
        &cluster,
        folder.path(),
        &format!("application hot on {home}\n  * r data/r* -> one {home},{away}\n"),
    );
    until_copied(&cluster, &object, &home).await;
    let are_gone = async |what: &str| {
        eventually(what, async || {
            let is_up = number(status(&cluster, &home).as_ref(), "term") > Some(0);
            is_up && kept_copies(&cluster, &away, &home).await.is_empty()
        })
        .await;
    };
    kill(cluster.pid_of(&home).unwrap());
    are_gone("a switch that has started drops the copies that it does not know").await;
    until_copied(&cluster, &object, &home).await;
    cluster.run(&["route", "rm", "hot"]);
    assert_eq!(of_copies(&cluster, &home, "current"), Some(0));
    are_gone("copies are dropped when their rule is removed").await;
    assert_eq!(object.read(0, 9).await.unwrap(), "hot");
}

#[test]
fn rules_that_scatter_io_in_a_way_that_nodes_cannot_are_refused() {
    let (folder, cluster) = cluster();
    let refused = |rule: &str, why: &str| {
        let file = rules(folder.path(), &format!("application a on every\n  {rule}\n"));
        let (_, said) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
        assert!(said.contains(why), "{rule}: {said}");
    };
    refused("* rw data/x -> one storage.0,storage.1", "write r in place of the operations");
    refused("* r data/x -> all storage.0,storage.1", "write one in place of all or quorum");
    refused("* rw data/x -> all storage.0,storage.1 follow", "leave follow out");
    refused("* rw data/x -> quorum storage.0,storage.9", "there is no target storage.9");
    refused("* r data/x -> one storage.0,storage.9", "there is no target storage.9");
    for rule in ["* r data/x -> one storage.0", "* rw data/x -> all storage.0,storage.1"] {
        let file = rules(folder.path(), &format!("application a on every\n  {rule}\n"));
        let checked = cluster.json(&["route", "check", file.to_str().unwrap()]);
        assert_eq!(checked["findings"], Value::Array(vec![]));
    }
}

/// An object whose bytes are one number, again and again.
struct Checked {
    object: Object,
    /// The latest number whose write was acknowledged, or which a reader has seen.
    floor: AtomicU64,
    /// The latest number that a write may have written.
    issued: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    is_over: AtomicBool,
}

impl Checked {
    async fn write(&self) {
        let value = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
        let data = Bytes::from(value.to_le_bytes().repeat(OBJECT_BYTES / 8));
        // While a node is down it is unknown whether the write happens. A repetition of it with the
        // same number leaves no doubt.
        while let Err(error) = self.object.write_full(data.clone()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        self.floor.fetch_max(value, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    async fn read(&self) {
        let floor = self.floor.load(Ordering::SeqCst);
        let read = match self.object.read(0, OBJECT_BYTES as u64).await {
            Ok(read) => read,
            Err(error) => return assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        };
        assert_eq!(read.len(), OBJECT_BYTES);
        let value = u64::from_le_bytes(read[..8].try_into().unwrap());
        assert!(read.chunks(8).all(|part| part == &read[..8]), "a torn read");
        assert!(value >= floor, "read {value} after {floor} was acknowledged or read");
        assert!(value <= self.issued.load(Ordering::SeqCst));
        self.floor.fetch_max(value, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Reads in parallel, and now and then a write, until it is over. Writes are far enough apart for
/// copies to be made in between.
fn work(checked: &Arc<Checked>) -> Vec<JoinHandle<()>> {
    let reader = |_| {
        let checked = Arc::clone(checked);
        tokio::spawn(async move {
            while !checked.is_over() {
                checked.read().await;
            }
        })
    };
    let mut tasks: Vec<_> = (0..READERS).map(reader).collect();
    let checked = Arc::clone(checked);
    tasks.push(tokio::spawn(async move {
        while !checked.is_over() {
            checked.write().await;
            tokio::time::sleep(Duration::from_millis(1800)).await;
        }
    }));
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_sees_the_last_acknowledged_write_when_nodes_with_copies_are_killed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.object(&format!("data/{}", names[0]).parse().unwrap()).await.unwrap();
    let checked = Arc::new(Checked {
        object,
        floor: AtomicU64::new(0),
        issued: AtomicU64::new(0),
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    });
    checked.write().await;
    put(
        &cluster,
        folder.path(),
        &format!("application hot on {home}\n  * r data/r* -> one {home},{away} least-loaded\n"),
    );
    let tasks = work(&checked);
    let watched = Arc::clone(&checked);
    let steps = tokio::task::spawn_blocking(move || {
        let copied = |what: &str| {
            let before = of_copies(&cluster, &home, "made");
            let served = reads_at(&cluster, &home, &away);
            eventually_blocking(what, || {
                let made = of_copies(&cluster, &home, "made");
                made > before && reads_at(&cluster, &home, &away) > served
            });
        };
        let worked = |what: &str| {
            let (reads, writes) = (&watched.reads, &watched.writes);
            let from = (reads.load(Ordering::SeqCst), writes.load(Ordering::SeqCst));
            eventually_blocking(what, || {
                reads.load(Ordering::SeqCst) > from.0 + 3 && writes.load(Ordering::SeqCst) > from.1
            });
        };
        copied("a copy is made and read");
        copied("a copy of a later state is made and read");
        kill_in_turn(&cluster, (&home, &away), worked, copied);
        watched.is_over.store(true, Ordering::SeqCst);
        (folder, cluster)
    });
    let kept = steps.await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let read = checked.object.read(0, 8).await.unwrap();
    let last = checked.floor.load(Ordering::SeqCst);
    assert_eq!(u64::from_le_bytes(read[..8].try_into().unwrap()), last);
    drop(kept);
}
