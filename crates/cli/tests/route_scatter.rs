//! Writes that are applied to copies (rules with `all` and `quorum`), on a cluster of real processes,
//! which are killed and paused.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use common::routes::{cluster, kill_in_turn, places, put, status};
use common::{RunningCluster, suspend};
use nacre::{Cluster, ErrorKind, Object};
use nacre_conformance::wait::{eventually, eventually_blocking};
use rustix::process::{Signal, kill_process};
use tokio::task::JoinHandle;

/// Each writer writes a part of the object with one request.
const PART: usize = 48 * 1024;
const WRITERS: usize = 3;
const READERS: usize = 3;
/// Between two writes of a writer. Copies must become current all the same.
const PAUSE: Duration = Duration::from_millis(25);

fn of_copies(cluster: &RunningCluster, target: &str, name: &str) -> Option<u64> {
    status(cluster, target).and_then(|status| status["copies"][name].as_u64())
}

fn reads_at(cluster: &RunningCluster, home: &str, target: &str) -> Option<u64> {
    status(cluster, home)?["copies"]["reads"][target].as_u64()
}

/// Reads the object until so many copies serve reads.
async fn until_copied(cluster: &RunningCluster, object: &Object, home: &str, copies: u64) {
    eventually("the copies are current", async || {
        object.read(0, 1).await.unwrap();
        of_copies(cluster, home, "current") == Some(copies)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_writes_keep_copies_current_and_other_changes_do_not() {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let name = format!("data/{}", names[0]);
    let object = client.object(&name.parse().unwrap()).await.unwrap();
    object.write_full("0123456789").await.unwrap();
    // The rule does not name the home, so all reads go to the copy once there is one.
    let text = format!("application hot on {home}\n  * rw data/r* -> all {away} least-loaded\n");
    put(&cluster, folder.path(), &text);
    until_copied(&cluster, &object, &home, 1).await;
    let made = of_copies(&cluster, &home, "made");
    let seen_at_copy = async |expected: &str| {
        let before = reads_at(&cluster, &home, &away);
        assert_eq!(object.read(0, 100).await.unwrap(), expected);
        assert_eq!(reads_at(&cluster, &home, &away), before.map(|reads| reads + 1));
    };

    object.write(4, "wxyz").await.unwrap();
    seen_at_copy("0123wxyz89").await;
    object.write(12, "end").await.unwrap();
    seen_at_copy("0123wxyz89\0\0end").await;
    object.zero(1, 2).await.unwrap();
    seen_at_copy("0\0\x003wxyz89\0\0end").await;
    object.zero(13, 100).await.unwrap();
    seen_at_copy("0\0\x003wxyz89\0\0e\0\0").await;
    cluster.run_with_input(&["object", "write", &name, "--offset", "0", "-"], "ABC");
    seen_at_copy("ABC3wxyz89\0\0e\0\0").await;
    assert_eq!(of_copies(&cluster, &home, "made"), made, "no copy was made anew");
    assert_eq!(of_copies(&cluster, &home, "updates"), Some(5));
    assert_eq!(of_copies(&cluster, &home, "updates_failed"), Some(0));
    assert_eq!(of_copies(&cluster, &home, "bytes"), Some(15));

    // A read with a `stat` gets both from the state that the copy has.
    assert_eq!(cluster.run(&["object", "get", &name]), "ABC3wxyz89\0\0e\0\0");
    let stat = cluster.json(&["object", "stat", &name]);
    assert_eq!(stat["size"], 15);
    let trace = cluster.run(&["route", "trace", "w", &name, "0..4"]);
    let shown = format!("{home} (home), then {away} (current)");
    assert!(trace.contains(&shown), "{trace}");
    let shown = cluster.run(&["route", "status"]);
    assert!(shown.contains("updates applied: 5, not confirmed: 0"), "{shown}");

    // All other changes make copies useless.
    object.truncate(3).await.unwrap();
    assert_eq!(object.read(0, 100).await.unwrap(), "ABC");
    until_copied(&cluster, &object, &home, 1).await;
    object.append("D").await.unwrap();
    assert_eq!(object.read(0, 100).await.unwrap(), "ABCD");
    until_copied(&cluster, &object, &home, 1).await;
    object.write(1, "x").await.unwrap();
    seen_at_copy("AxCD").await;
    object.remove().await.unwrap();
    assert_eq!(object.zero(0, 1).await.unwrap_err().kind(), ErrorKind::NotFound);
    object.write(2, "new").await.unwrap();
    assert_eq!(object.read(0, 9).await.unwrap(), "\0\0new");

    // Rules that do not name the target any more take its copy out.
    until_copied(&cluster, &object, &home, 1).await;
    let text = format!("application hot on {home}\n  * rw data/r* -> all {home}\n");
    put(&cluster, folder.path(), &text);
    assert_eq!(of_copies(&cluster, &home, "current"), Some(0));
}

/// An object of which each writer has a part. Each part holds one number, again and again.
struct Checked {
    object: Object,
    /// For each part the latest number whose write was acknowledged, or which a reader has seen.
    floor: Mutex<Vec<u64>>,
    issued: Vec<AtomicU64>,
    reads: AtomicU64,
    writes: AtomicU64,
    is_over: AtomicBool,
}

impl Checked {
    async fn new(object: Object) -> Arc<Self> {
        object.write_full(vec![0; PART * WRITERS]).await.unwrap();
        Arc::new(Self {
            object,
            floor: Mutex::new(vec![0; WRITERS]),
            issued: (0..WRITERS).map(|_| AtomicU64::new(0)).collect(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    async fn write(&self, part: usize) {
        let value = self.issued[part].fetch_add(1, Ordering::SeqCst) + 1;
        let data = Bytes::from(value.to_le_bytes().repeat(PART / 8));
        // While a node is down it is unknown whether the write happens. A repetition of it with the
        // same number leaves no doubt.
        while let Err(error) = self.object.write((part * PART) as u64, data.clone()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        self.saw(&(0..WRITERS).map(|at| if at == part { value } else { 0 }).collect::<Vec<_>>());
        self.writes.fetch_add(1, Ordering::SeqCst);
    }

    fn saw(&self, values: &[u64]) {
        let mut floor = self.floor.lock().unwrap();
        floor.iter_mut().zip(values).for_each(|(floor, value)| *floor = (*floor).max(*value));
    }

    /// A read sees in each part at least what was acknowledged or read before it began.
    async fn read(&self) {
        let floor = self.floor.lock().unwrap().clone();
        let read = match self.object.read(0, (PART * WRITERS) as u64).await {
            Ok(read) => read,
            Err(error) => return assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        };
        assert_eq!(read.len(), PART * WRITERS);
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let values: Vec<_> = read.chunks(PART).map(number).collect();
        for (part, bytes) in read.chunks(PART).enumerate() {
            assert!(bytes.chunks(8).all(|one| number(one) == values[part]), "a torn part");
            assert!(values[part] >= floor[part], "part {part}: {values:?} after {floor:?}");
            assert!(values[part] <= self.issued[part].load(Ordering::SeqCst));
        }
        self.saw(&values);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

/// Reads and writes in parallel until it is over.
fn work(checked: &Arc<Checked>) -> Vec<JoinHandle<()>> {
    let reader = |_| {
        let checked = Arc::clone(checked);
        tokio::spawn(async move {
            while !checked.is_over() {
                checked.read().await;
            }
        })
    };
    let writer = |part| {
        let checked = Arc::clone(checked);
        tokio::spawn(async move {
            while !checked.is_over() {
                checked.write(part).await;
                tokio::time::sleep(PAUSE).await;
            }
        })
    };
    (0..READERS).map(reader).chain((0..WRITERS).map(writer)).collect()
}

/// Kills and pauses nodes while clients read and write an object with copies at all targets.
async fn every_read_sees_the_last_acknowledged_write(take: &str) {
    let (folder, cluster) = cluster();
    let (names, home, away) = places(&cluster, 1).await;
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let object = client.object(&format!("data/{}", names[0]).parse().unwrap()).await.unwrap();
    let checked = Checked::new(object).await;
    let targets = "storage.0,storage.1,storage.2";
    let text = format!("application hot on {home}\n  * rw data/r* -> {take} {targets}\n");
    put(&cluster, folder.path(), &text);
    let tasks = work(&checked);
    let watched = Arc::clone(&checked);
    let steps = tokio::task::spawn_blocking(move || {
        let copied = |what: &str| {
            let (updates, served) =
                (of_copies(&cluster, &home, "updates"), reads_at(&cluster, &home, &away));
            eventually_blocking(what, || {
                let more =
                    of_copies(&cluster, &home, "updates").map(|count| count.saturating_sub(20));
                more > updates.or(Some(0))
                    && reads_at(&cluster, &home, &away) > served.map(|count| count + 5)
            });
        };
        let worked = |what: &str| {
            let (reads, writes) = (&watched.reads, &watched.writes);
            let from = (reads.load(Ordering::SeqCst), writes.load(Ordering::SeqCst));
            eventually_blocking(what, || {
                reads.load(Ordering::SeqCst) > from.0 + 9
                    && writes.load(Ordering::SeqCst) > from.1 + 9
            });
        };
        copied("copies are made under writes, and serve reads");
        let paused = suspend(cluster.pid_of(&away).unwrap());
        worked("work goes on while a node with a copy is paused");
        kill_process(paused, Signal::CONT).unwrap();
        copied("the copy of the paused node is current again under writes");
        kill_in_turn(&cluster, (&home, &away), worked, copied);
        watched.is_over.store(true, Ordering::SeqCst);
        (folder, cluster)
    });
    let kept = steps.await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    checked.read().await;
    let last = checked.floor.lock().unwrap().clone();
    let issued: Vec<_> = checked.issued.iter().map(|one| one.load(Ordering::SeqCst)).collect();
    assert_eq!(last, issued, "the last read sees the last write of each writer");
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_every_read_sees_the_last_acknowledged_write_when_nodes_are_killed_or_paused() {
    every_read_sees_the_last_acknowledged_write("all").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_quorum_every_read_sees_the_last_acknowledged_write_when_nodes_are_killed_or_paused() {
    every_read_sees_the_last_acknowledged_write("quorum").await;
}
