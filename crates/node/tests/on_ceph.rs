//! The whole system on a Ceph cluster, without a daemon of nacre.

use std::time::Duration;

use bytes::Bytes;
use nacre::{Change, Cluster, Entry, ErrorKind, LogOptions, ProgramId};
use nacre_brados::{Value, shown_reply};
use nacre_calls::{decode_reply, encode_request};
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use nacre_node::LocalCluster;
use nacre_rados::RadosOptions;

/// How long the test waits for something that the cluster does by itself.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

const ECHO: &str = "function echo(i, o) o:append(i:str()) end objclass.register(echo, 'readonly')";

async fn open(ceph: &CephCluster) -> LocalCluster {
    let options = RadosOptions { conf: Some(ceph.conf()), ..Default::default() };
    LocalCluster::ceph(options).await.unwrap()
}

/// Two clusters: the OSDs of one offer nacre's class, those of the other do not.
fn clusters() -> [CephCluster; 2] {
    let folder = ceph_plugin_folder();
    let class_dir = folder.to_str().unwrap();
    [&["--osds", "3"][..], &["--osds", "3", "--class-dir", class_dir]].map(CephCluster::start)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_programs_maps_and_logs_are_the_same_for_every_client() {
    for ceph in clusters() {
        are_the_same_for_every_client(&ceph).await;
    }
}

async fn are_the_same_for_every_client(ceph: &CephCluster) {
    let (one, two) = (open(ceph).await, open(ceph).await);
    let echo: ProgramId = "class/echo".parse().unwrap();
    let map = "settings".parse().unwrap();

    let object = one.pool("data").await.unwrap().object("a").unwrap();
    object.append("kept").await.unwrap();
    let version = one.programs().put(&echo, ECHO).await.unwrap();
    one.programs().activate(&echo, version).await.unwrap();
    assert_eq!(object.call("echo", "echo", "x").await.unwrap().output, "x");
    one.maps().commit(&map, 0, vec![Change::set("k", "v")]).await.unwrap();

    let object = two.pool("data").await.unwrap().object("a").unwrap();
    assert_eq!(object.read(0, 100).await.unwrap(), "kept");
    let call = nacre::ClassCall {
        class: "echo".parse().unwrap(),
        method: "echo".parse().unwrap(),
        version: Some(version),
        input: Bytes::from("y"),
    };
    assert_eq!(object.call_version(call).await.unwrap().output, "y");
    assert_eq!(two.maps().entry(&map, "k").await.unwrap(), (1, Some(Bytes::from("v"))));
    let conflict = two.maps().commit(&map, 0, vec![Change::set("k", "w")]).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict}");

    two.close().await;
    let version = one.programs().put(&echo, &format!("{ECHO} -- again")).await.unwrap();
    one.programs().activate(&echo, version).await.unwrap();
    let waited = one.programs().wait(&echo, version, PATIENCE).await;
    waited.expect("nobody waits for a process that has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_stays_usable_when_another_process_takes_over_its_sequencer() {
    for ceph in clusters() {
        goes_on_when_another_process_takes_it_over(&ceph).await;
    }
}

async fn goes_on_when_another_process_takes_it_over(ceph: &CephCluster) {
    let (one, two) = (open(ceph).await, open(ceph).await);
    let log = one.create_log("l", LogOptions::default()).await.unwrap();
    assert_eq!(log.append("one").await.unwrap(), 0);
    let other = two.log("l").await.unwrap();
    let second = other.append("two").await.unwrap();
    let third = log.append("three").await.unwrap();
    assert!(0 < second && second < third, "{second} {third}");

    let read = other.read_range(0, 100).await.unwrap();
    let data: Vec<_> = read
        .into_iter()
        .filter_map(|slot| match slot.entry {
            Some(Entry::Data(data)) => Some(data),
            _ => None,
        })
        .collect();
    assert_eq!(data, ["one", "two", "three"]);
}

const ACCOUNT: &str = include_str!("../../../programs/class/account.brados");
const REFS: &str = include_str!("../../../programs/class/refs.brados");

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_an_object_is_delivered_once_by_one_of_the_processes() {
    for ceph in clusters() {
        is_delivered_once(&ceph).await;
    }
}

async fn ask(cluster: &Cluster, object: &str, class: &str, method: &str, row: &[Value]) -> String {
    let object = cluster.object(&format!("data/{object}").parse().unwrap()).await.unwrap();
    let reply = object.call(class, method, encode_request(row)).await.unwrap();
    shown_reply(&decode_reply(&reply.output).unwrap())
}

async fn is_delivered_once(ceph: &CephCluster) {
    const TRANSFERS: i64 = 20;
    let one = open(ceph).await;
    for (name, source) in [("class/account", ACCOUNT), ("class/refs", REFS)] {
        let program: ProgramId = name.parse().unwrap();
        let version = one.programs().put(&program, source).await.unwrap();
        one.programs().activate(&program, version).await.unwrap();
    }
    let two = open(ceph).await;
    let row = [Value::text("first"), Value::Int(100)];
    assert_eq!(ask(&one, "a", "account", "deposit", &row).await, "ret('ok')");
    for number in 0..TRANSFERS {
        let row = [Value::text(&number.to_string()), Value::text("b"), Value::Int(1)];
        let by = if number % 2 == 0 { &one } else { &two };
        assert_eq!(ask(by, "a", "account", "transfer", &row).await, "ret('ok')");
    }
    let expected = format!("holds({TRANSFERS})");
    let arrived = async {
        while ask(&one, "b", "account", "balance", &[Value::Nil]).await != expected {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, arrived).await.expect("all of it arrives");
    let tag = [Value::text("x")];
    ask(&two, "c", "refs", "get_ref", &tag).await;
    ask(&two, "c", "refs", "put_ref", &tag).await;
    let object = one.object(&"data/c".parse().unwrap()).await.unwrap();
    let removed = async {
        while object.stat().await.is_ok() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, removed).await.expect("it is removed");
}
