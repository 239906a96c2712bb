//! Tests gateways of a Ceph cluster that accept only mutual TLS. An administrator admits or revokes
//! an entity once, and every gateway follows.

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::RunningCluster;
use common::person::Person;
use nacre::{Cluster, ErrorKind, Object};
use nacre_conformance::CephCluster;
use serde_json::Value;
use tokio::net::TcpSocket;

const GATEWAYS: [&str; 2] = ["gateway.0", "gateway.1"];
/// Reads that are under way at a time.
const READERS: usize = 16;
/// Reads between two things that happen.
const SOME_READS: u64 = 500;

impl Person {
    /// An identity file of this person with a changed list of gateways.
    fn knowing(&self, name: &str, change: impl FnOnce(&mut Vec<Value>)) -> PathBuf {
        let text = std::fs::read(&self.identity).unwrap();
        let mut file: Value = serde_json::from_slice(&text).unwrap();
        change(file["nodes"].as_array_mut().unwrap());
        let path = self.home.path().join(name);
        std::fs::write(&path, file.to_string()).unwrap();
        path
    }

    /// An object as reached through one gateway, on a session of its own.
    async fn through(&self, gateway: &str) -> Object {
        let file = self.knowing(gateway, |nodes| nodes.retain(|node| node["name"] == gateway));
        let cluster = Cluster::connect_as(&file).await.unwrap();
        cluster.pool("data").await.unwrap().object("shared").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_entity_holds_at_every_gateway_at_once() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let cluster = RunningCluster::start_tls_with(&["--engine", &engine]);
    assert!(!cluster.folder().join("run/gateway.0.sock").exists(), "TLS only");

    let alice = Person::add(&cluster, "alice", &["rw pool=data"]);
    let bob = Person::add(&cluster, "bob", &["r pool=data"]);
    assert!(cluster.run(&["entity", "list"]).contains("rw pool=data"));
    let (mut hers, mut his) = (Vec::new(), Vec::new());
    for gateway in GATEWAYS {
        hers.push(alice.through(gateway).await);
        his.push(bob.through(gateway).await);
    }
    for object in &hers {
        object.append("a").await.unwrap();
    }
    for object in &his {
        assert_eq!(object.read(0, 9).await.unwrap(), "aa");
        assert_eq!(object.append("b").await.unwrap_err().kind(), ErrorKind::Denied);
    }

    cluster.run(&["entity", "ungrant", "alice", "rw pool=data"]);
    for object in &hers {
        assert_eq!(object.append("a").await.unwrap_err().kind(), ErrorKind::Denied);
    }
    cluster.run(&["entity", "grant", "alice", "rw pool=data"]);
    for object in &hers {
        object.append("a").await.unwrap();
    }
    cluster.run(&["entity", "revoke", "alice"]);
    for object in &hers {
        let error = object.append("a").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{error}");
    }
    assert!(alice.is_denied(&["object", "stat", "data/shared"]).contains("no longer"));
    for object in &his {
        assert_eq!(object.read(0, 9).await.unwrap(), "aaaa", "others noticed nothing");
    }
}

/// Only gateways can replace each other. A node that keeps objects itself has no replacement.
#[test]
fn an_identity_reaches_every_object_while_a_gateway_is_away() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let cluster = RunningCluster::start_tls_with(&["--engine", &engine]);
    let alice = Person::add(&cluster, "alice", &["rw pool=data", "rw log=l"]);
    // This socket is bound but does not listen. So the port is in use, and every connection to it
    // is refused.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let port = bound.local_addr().unwrap();
    let identity = alice.knowing("away", |nodes| nodes[0]["address"] = port.to_string().into());
    let alice = Person { identity, ..alice };
    // Enough names that some have each of the gateways for their first.
    for number in 0..8 {
        let object = format!("data/o{number}");
        alice.run(&["object", "append", &object, "hello"]);
        assert_eq!(alice.run(&["object", "get", &object]), "hello");
    }
    cluster.run(&["log", "create", "l"]);
    alice.run(&["log", "append", "l", "hello"]);
    assert_eq!(alice.run(&["log", "read", "l"]), "hello\n");
}

/// A client repeats a read at another gateway, whatever the error of the first gateway was.
#[tokio::test(flavor = "multi_thread")]
async fn reads_continue_through_another_gateway_after_theirs_dies() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let running = RunningCluster::start_tls_with(&["--engine", &engine]);
    let alice = Person::add(&running, "alice", &["rw pool=data"]);
    let cluster = Cluster::connect_as(&alice.identity).await.unwrap();
    let pool = cluster.pool("data").await.unwrap();
    let through = |number: &u32| {
        let object = pool.object(&format!("o{number}")).unwrap();
        cluster.locate(object.id()).as_str() == GATEWAYS[0]
    };
    let object = pool.object(&format!("o{}", (0..).find(through).unwrap())).unwrap();
    object.append("kept").await.unwrap();

    let (reads, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let (object, pool) = (object.clone(), pool.clone());
        let (reads, is_over) = (Arc::clone(&reads), Arc::clone(&is_over));
        readers.push(tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(object.read(0, 9).await.unwrap(), "kept");
                assert!(!pool.list(None, "", 9).await.unwrap().names.is_empty());
                reads.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let more = async || {
        let before = reads.load(Ordering::Relaxed);
        while reads.load(Ordering::Relaxed) < before + SOME_READS {
            assert!(!readers.iter().any(tokio::task::JoinHandle::is_finished));
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    more().await;
    // Without its key the killed gateway cannot restart.
    let pid = tokio::task::block_in_place(|| running.pid_of(GATEWAYS[0]).unwrap());
    let key = running.folder().join("tls").join(format!("node.{}.json", GATEWAYS[0]));
    std::fs::rename(&key, key.with_extension("away")).unwrap();
    common::kill(pid);
    more().await;
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
    object.append(" still").await.unwrap();
    assert_eq!(object.read(0, 99).await.unwrap(), "kept still");
}
