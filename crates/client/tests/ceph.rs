//! The whole system kept by a Ceph cluster, with no daemon of nacre's.

use bytes::Bytes;
use nacre::{Change, Cluster, Entry, ErrorKind, LogOptions, ProgramId, RadosOptions};
use nacre_conformance::{CephCluster, ceph_plugin_folder};

const ECHO: &str = "function echo(i, o) o:append(i:str()) end objclass.register(echo, 'readonly')";

async fn open(ceph: &CephCluster) -> Cluster {
    let options = RadosOptions { conf: Some(ceph.conf()), ..Default::default() };
    Cluster::ceph(options).await.unwrap()
}

/// Clusters whose OSDs offer nacre's class, and whose do not.
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
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_goes_on_when_another_process_takes_it_over() {
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
