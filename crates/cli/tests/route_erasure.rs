//! Rules that erasure-code objects at rest.

mod common;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use common::routes::{cluster, number, places, put, status};
use common::{RunningCluster, kill, suspend};
use nacre::{Cluster, ClusterFile, ErrorKind, Object, RoleName, Sessions};
use nacre_conformance::wait::{eventually, eventually_blocking};
use nacre_node::ROUTE_SERVICE;
use nacre_object::{Op, OpResult, SnapshotName};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Three stripes for two fragments with bytes, the last of them short.
const OBJECT_BYTES: usize = 600_077;
const RULE: &str =
    "application t on every\n  * * data/r* -> erasure 2 storage.0,storage.1,storage.2\n";

fn of_erasure(cluster: &RunningCluster, target: &str, name: &str) -> Option<u64> {
    status(cluster, target).and_then(|status| status["erasure"][name].as_u64())
}

fn wait_until_coded(cluster: &RunningCluster, target: &str, count: u64) {
    eventually_blocking("the objects are coded", || {
        of_erasure(cluster, target, "objects") == Some(count)
    });
}

fn contents(seed: usize) -> Vec<u8> {
    (0..OBJECT_BYTES).map(|at| ((at * 31 + seed * 7 + at / 977) % 251) as u8).collect()
}

async fn object(client: &Cluster, name: &str) -> Object {
    client.object(&format!("data/{name}").parse().unwrap()).await.unwrap()
}

/// Objects with their contents.
struct Checked(Vec<(Object, Vec<u8>)>);

impl Checked {
    /// Writes the objects.
    async fn write(client: &Cluster, names: &[String]) -> Self {
        let mut objects = vec![];
        for (number, name) in names.iter().enumerate() {
            let object = object(client, name).await;
            object.write_full(contents(number)).await.unwrap();
            objects.push((object, contents(number)));
        }
        Self(objects)
    }

    /// Reads each object, as a whole and in parts.
    async fn check(&self) {
        for (object, bytes) in &self.0 {
            assert_eq!(object.stat().await.unwrap().size, bytes.len() as u64);
            assert!(object.read(0, u64::from(u32::MAX)).await.unwrap() == bytes[..], "{object:?}");
            for (start, length) in [(0, 1), (131_000, 200), (262_100, 300_000), (599_999, 500)] {
                let (start, end) = (start.min(bytes.len()), bytes.len().min(start + length));
                let read = object.read(start as u64, length as u64).await.unwrap();
                assert!(read == bytes[start..end], "{object:?} {start} {length}");
            }
            assert!(object.read(700_000, 9).await.unwrap().is_empty());
        }
    }

    async fn write_part(&mut self, number: usize, offset: usize, part: &[u8]) {
        let (object, bytes) = &mut self.0[number];
        object.write(offset as u64, part.to_vec()).await.unwrap();
        bytes[offset..offset + part.len()].copy_from_slice(part);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_at_rest_are_coded_and_read_while_a_target_is_down() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 4).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let mut objects = Checked::write(&client, &names[..3]).await;
    let small = object(&client, &names[3]).await;
    small.write_full("small").await.unwrap();
    objects.0[0].0.set_attribute("colour", "blue").await.unwrap();
    put(&cluster, folder.path(), RULE);
    wait_until_coded(&cluster, &home, 3);
    objects.check().await;
    assert_eq!(small.read(0, 9).await.unwrap(), "small");
    assert_eq!(objects.0[0].0.attribute("colour").await.unwrap(), "blue");
    assert_eq!(of_erasure(&cluster, &home, "bytes"), Some(3 * OBJECT_BYTES as u64));
    // Two fragments have the bytes, and a third is computed.
    let fragments = of_erasure(&cluster, &home, "fragment_bytes").unwrap();
    assert!(fragments.abs_diff(3 * OBJECT_BYTES as u64 * 3 / 2) < 100, "{fragments}");
    let stub = objects.0[0].0.attribute("nacre.erasure").await.unwrap();
    let forged = objects.0[1].0.set_attribute("nacre.erasure", stub).await.unwrap_err();
    assert_eq!(forged.kind(), ErrorKind::Denied);

    let paused = suspend(cluster.pid_of(&away).unwrap());
    objects.check().await;
    kill_process(paused, Signal::CONT).unwrap();
    assert!(of_erasure(&cluster, &home, "computed_reads") > Some(0));
    kill(cluster.pid_of(&home).unwrap());
    objects.check().await;

    // A change brings the bytes home, and later they are coded again.
    objects.write_part(1, 262_140, b"changed").await;
    objects.check().await;
    assert_eq!(of_erasure(&cluster, &home, "brought_home"), Some(1));
    objects.0[2].0.remove().await.unwrap();
    let (removed, _) = objects.0.pop().unwrap();
    assert_eq!(removed.read(0, 9).await.unwrap_err().kind(), ErrorKind::NotFound);
    removed.write_full("new").await.unwrap();
    wait_until_coded(&cluster, &home, 2);
    eventually_blocking("the changed object is coded", || {
        of_erasure(&cluster, &home, "coded") > Some(0)
    });
    objects.check().await;
    assert_eq!(removed.read(0, 9).await.unwrap(), "new");

    cluster.run(&["route", "rm", "t"]);
    wait_until_coded(&cluster, &home, 0);
    let paused = suspend(cluster.pid_of(&away).unwrap());
    objects.check().await;
    kill_process(paused, Signal::CONT).unwrap();
    assert!(objects.0[0].0.attribute("nacre.erasure").await.is_err());
}

/// Takes a target's disk away, and has the target begin anew.
fn lose(cluster: &mut RunningCluster, folder: &Path, target: &str) {
    assert!(cluster.stop());
    std::fs::remove_dir_all(cluster.folder().join(target)).unwrap();
    cluster.run(&["node", "forget", target, "--yes"]);
    *cluster = RunningCluster::start_in(&folder.join("cluster"));
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_outlive_the_disk_of_a_target_and_are_coded_anew() {
    let (folder, mut cluster) = cluster();
    let (names, home, away) = places(&cluster, 2).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let objects = Checked::write(&client, &names).await;
    put(&cluster, folder.path(), RULE);
    wait_until_coded(&cluster, &home, 2);
    let keeper = ["storage.0", "storage.1", "storage.2"];
    let keeper = keeper.into_iter().find(|name| *name != home && *name != away).unwrap();
    lose(&mut cluster, folder.path(), &away);
    objects.check().await;
    eventually_blocking("the objects are coded anew", || {
        of_erasure(&cluster, &home, "coded") == Some(2)
            && of_erasure(&cluster, &home, "objects") == Some(2)
    });
    assert!(of_erasure(&cluster, &home, "lost") > Some(0));
    let paused = suspend(cluster.pid_of(keeper).unwrap());
    objects.check().await;
    kill_process(paused, Signal::CONT).unwrap();
}

/// How many fragments all targets keep for the objects of `home`.
async fn stored_fragments(cluster: &RunningCluster, home: &str) -> usize {
    let file = ClusterFile::read(cluster.folder()).unwrap();
    let sessions = Sessions::new(&file).unwrap();
    let ask = Bytes::from(format!(r#"{{"home_target":"{home}","after":null}}"#));
    let mut count = 0;
    for node in file.with_role(RoleName::Storage) {
        let session = sessions.session(&node.name).unwrap();
        let time = Duration::from_secs(10);
        let answer = session.ask(ROUTE_SERVICE, "fragments", ask.clone(), time).await.unwrap();
        let list: Value = serde_json::from_slice(&answer).unwrap();
        count += list["names"].as_array().unwrap().len();
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_any_kind_find_the_bytes_and_leave_no_fragments_behind() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 6).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let mut objects = Checked::write(&client, &names).await;
    put(&cluster, folder.path(), RULE);
    wait_until_coded(&cluster, &home, 6);
    assert_eq!(stored_fragments(&cluster, &home).await, 3 * 6);
    let brought = || of_erasure(&cluster, &home, "brought_home").unwrap();

    // Guards and reads of the version leave the object as it is.
    let (first, bytes) = &objects.0[0];
    let version = first.stat().await.unwrap().version;
    let guarded = first.transaction().assert_version(version).read(7, 5).commit().await.unwrap();
    assert_eq!(guarded.results[1], OpResult::Data(bytes[7..12].to_vec().into()));
    let wrong = first.transaction().assert_version(version - 1).read(7, 5).commit().await;
    assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Conflict);
    first.transaction().assert_version(version).op(Op::Remove).commit().await.unwrap();
    objects.0.remove(0);
    // Nor does a write of all bytes need the former ones.
    objects.0[0].1 = contents(77);
    objects.0[0].0.write_full(contents(77)).await.unwrap();
    assert_eq!(brought(), 0);

    objects.0[1].0.append("more").await.unwrap();
    objects.0[1].1.extend(*b"more");
    objects.0[2].0.truncate(590_000).await.unwrap();
    objects.0[2].1.truncate(590_000);
    objects.0[3].0.set_attribute("colour", "blue").await.unwrap();
    let kept: SnapshotName = "kept".parse().unwrap();
    objects.0[4].0.snapshot(kept.clone()).await.unwrap();
    objects.check().await;
    assert_eq!(brought(), 4);
    objects.write_part(4, 9, b"changed").await;
    let former = objects.0[4].0.at(kept.clone()).read(9, 7).await.unwrap();
    assert!(former == contents(5)[9..16]);
    objects.0[4].0.rollback(kept.clone()).await.unwrap();
    objects.0[4].1 = contents(5);
    objects.0[4].0.remove_snapshot(kept).await.unwrap();
    wait_until_coded(&cluster, &home, 5);
    objects.check().await;

    // Rules of other kinds take the same objects over, and hand them back.
    let kept = "application t on every\n  * * data/r* -> snapshots monday\n";
    put(&cluster, folder.path(), kept);
    let monday: SnapshotName = "monday".parse().unwrap();
    for (object, bytes) in &objects.0 {
        assert!(object.at(monday.clone()).read(0, 1 << 20).await.unwrap() == bytes[..]);
    }
    objects.check().await;
    let moved = format!("application t on {home}\n  * w data/r* -> target {away} follow at-rest\n");
    put(&cluster, folder.path(), &moved);
    let all: usize = objects.0.iter().map(|(_, bytes)| bytes.len()).sum();
    eventually_blocking("all bytes have moved", || {
        number(status(&cluster, &home).as_ref(), "routed_bytes") == Some(all as u64)
    });
    objects.check().await;
    put(&cluster, folder.path(), RULE);
    wait_until_coded(&cluster, &home, 5);
    objects.check().await;
    cluster.run(&["route", "rm", "t"]);
    wait_until_coded(&cluster, &home, 0);
    eventually("no fragment is left", async || stored_fragments(&cluster, &home).await == 0).await;
    objects.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_change_is_lost_while_objects_are_coded_and_nodes_are_killed() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 6).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let mut objects = Checked::write(&client, &names).await;
    put(&cluster, folder.path(), RULE);
    for round in 0..4_usize {
        // Kill a node while a pass codes objects, and change some of them at any point of it.
        eventually_blocking("objects are coded", || {
            of_erasure(&cluster, &home, "coded") > Some(round as u64 % 3)
        });
        kill(cluster.pid_of(if round % 2 == 0 { &home } else { &away }).unwrap());
        for number in 0..objects.0.len() {
            if (number + round) % 2 == 0 {
                let part = [round as u8 + 1; 5000];
                eventually_write(&mut objects, number, number * 90_000, &part).await;
            }
        }
        objects.check().await;
        if round == 2 {
            cluster.run(&["route", "rm", "t"]);
            objects.check().await;
            put(&cluster, folder.path(), RULE);
        }
    }
    wait_until_coded(&cluster, &home, 6);
    objects.check().await;
}

/// Writes until the write is acknowledged. A write that has failed may have happened.
async fn eventually_write(objects: &mut Checked, number: usize, offset: usize, part: &[u8]) {
    let object = objects.0[number].0.clone();
    eventually("a write is acknowledged", async || {
        object.write(offset as u64, part.to_vec()).await.is_ok()
    })
    .await;
    objects.write_part(number, offset, part).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_cannot_be_executed_are_refused_and_other_rules_bring_objects_home() {
    let (folder, cluster) = cluster();
    let refused = |rule: &str, why: &str| {
        let file =
            common::routes::rules(folder.path(), &format!("application u on every\n  {rule}\n"));
        let (_, error) = cluster.fails(&["route", "put", file.to_str().unwrap()]);
        assert!(error.contains(why), "{rule}: {error}");
    };
    refused("* * data/r* -> erasure 3 storage.0,storage.1,storage.2", "cannot be enough");
    refused("* * data/r* -> erasure 1 storage.0,storage.0", "twice");
    refused("* * data/r* -> erasure 1 storage.0,storage.7", "storage.7");
    refused("* rw data/r* -> erasure 1 storage.0,storage.1", "as a whole");
    refused("* * data/r* 0..4KiB -> erasure 1 storage.0,storage.1", "as a whole");

    let (names, home, away) = places(&cluster, 2).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let objects = Checked::write(&client, &names).await;
    put(&cluster, folder.path(), RULE);
    wait_until_coded(&cluster, &home, 2);
    // The rule about copies and the one about fragments meet at the same objects.
    let other = format!("application u on every\n  * r data/r* -> one {home},{away}\n");
    let file = common::routes::rules(folder.path(), &other);
    cluster.run(&["route", "put", file.to_str().unwrap(), "--force"]);
    objects.check().await;
    wait_until_coded(&cluster, &home, 0);
    objects.check().await;
    cluster.run(&["route", "rm", "u"]);
    wait_until_coded(&cluster, &home, 2);
    objects.check().await;
}
