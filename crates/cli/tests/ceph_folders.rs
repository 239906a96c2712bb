//! Two folders' gateways on one Ceph cluster, through both of which a log is appended to at once.

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::RunningCluster;
use nacre::{Cluster, ClusterFile, Entry, Log};
use nacre_conformance::CephCluster;
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, block_in_place};

/// Appenders of each folder.
const APPENDERS: usize = 4;
/// Records that are appended through each folder between two things that happen.
const SOME: u64 = 200;
/// How often they may not have settled yet.
const ATTEMPTS: usize = 10;
/// Records that are read at a time.
const PAGE: usize = 1000;

/// A folder's appenders, and what they were told.
struct Appenders {
    log: Log,
    is_over: Arc<AtomicBool>,
    positions: Arc<Mutex<HashMap<String, u64>>>,
    records: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Appenders {
    async fn start(folder: &Path, name: &str) -> Self {
        let log = Cluster::connect(folder).await.unwrap().log("l").await.unwrap();
        let (is_over, positions, records) = Default::default();
        let mut all = Self { log, is_over, positions, records, tasks: vec![] };
        for number in 0..APPENDERS {
            all.tasks.push(tokio::spawn(all.append(format!("{name}-{number}"))));
        }
        all
    }

    fn append(&self, name: String) -> impl Future<Output = ()> + use<> {
        let (log, is_over) = (self.log.clone(), Arc::clone(&self.is_over));
        let (positions, records) = (Arc::clone(&self.positions), Arc::clone(&self.records));
        async move {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let record = format!("{name}-{number}");
                // One that may or may not be there is not sent again: the next has another name.
                if let Ok(position) = log.append(&record).await {
                    positions.lock().await.insert(record, position);
                    records.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Returns when records were appended after this moment.
    async fn more(&self) {
        let before = self.records.load(Ordering::Relaxed);
        while self.records.load(Ordering::Relaxed) < before + SOME {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) -> HashMap<String, u64> {
        self.is_over.store(true, Ordering::Relaxed);
        futures::future::join_all(self.tasks).await;
        Arc::into_inner(self.positions).unwrap().into_inner()
    }
}

/// Who hands out positions now, and since which view.
async fn sequencer(folder: &Path) -> (String, u64) {
    let cluster = Cluster::connect(folder).await.unwrap();
    loop {
        // None before the first record.
        let view = cluster.log("l").await.unwrap().view();
        if let Some(sequencer) = view.sequencer() {
            return (sequencer.node.to_string(), sequencer.epoch);
        }
    }
}

fn is_of(folder: &Path, node: &str) -> bool {
    let file = ClusterFile::read(folder).unwrap();
    file.nodes().iter().any(|entry| entry.node_name().unwrap().as_str() == node)
}

/// Every record that was acknowledged is there once, at its position.
async fn check(folder: &Path, told: [HashMap<String, u64>; 2]) {
    let log = Cluster::connect(folder).await.unwrap().log("l").await.unwrap();
    let mut found: HashMap<String, Vec<u64>> = HashMap::new();
    let mut at = 0;
    loop {
        let page = log.read_range(at, PAGE).await.unwrap();
        let Some(last) = page.last() else { break };
        at = last.position + 1;
        for slot in page {
            if let Some(Entry::Data(record)) = slot.entry {
                let record = String::from_utf8(record.to_vec()).unwrap();
                found.entry(record).or_default().push(slot.position);
            }
        }
    }
    for (record, position) in told.iter().flatten() {
        assert_eq!(found.get(record), Some(&vec![*position]), "{record}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_one_user_settle_on_one_sequencer_and_one_goes_on_without_the_other() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let scratch = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let folders = [scratch[0].path(), scratch[1].path()];
    let mut running =
        folders.map(|folder| RunningCluster::start_with(folder, &["--engine", &engine]));
    block_in_place(|| running[0].run(&["log", "create", "l"]));
    let [a, b] = [Appenders::start(folders[0], "a").await, Appenders::start(folders[1], "b").await];

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
    let told = tokio::join!(a.end(), b.end());
    check(folders[1 - gone], told.into()).await;
}

/// Each has an authority of its own, so neither reaches the other's nodes.
#[tokio::test(flavor = "multi_thread")]
async fn folders_that_do_not_reach_each_other_have_the_sequencer_in_turn() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let running = [(); 2].map(|()| RunningCluster::start_tls_with(&["--engine", &engine]));
    let folders = [running[0].folder(), running[1].folder()];
    block_in_place(|| running[0].run(&["log", "create", "l"]));
    let [a, b] = [Appenders::start(folders[0], "a").await, Appenders::start(folders[1], "b").await];
    let (_, from) = sequencer(folders[0]).await;
    tokio::join!(a.more(), b.more());
    tokio::join!(a.more(), b.more());
    let (_, to) = sequencer(folders[0]).await;
    let told = tokio::join!(a.end(), b.end());
    println!("{} and {} records, {} views", told.0.len(), told.1.len(), to - from);
    assert!(told.0.len() as u64 > to - from && told.1.len() as u64 > to - from);
    check(folders[0], told.into()).await;
}
