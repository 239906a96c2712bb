//! Objects that rules send elsewhere, and workers that write them, read them and check the result.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use nacre::{Cluster, Error, ErrorKind, Object};
use nacre_conformance::wait::eventually_blocking;
use nacre_object::ObjectId;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::{RunningCluster, kill};

/// The bytes of a write.
const BLOCK: usize = 1024;
/// Blocks of an object.
const BLOCKS: u64 = 6;

pub fn rules(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("rules");
    std::fs::write(&file, format!("nacre routes 1\n{text}")).unwrap();
    file
}

/// A cluster of three targets, and a folder for files.
pub fn cluster() -> (tempfile::TempDir, RunningCluster) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--targets", "3", "--metadata", "1"];
    let cluster = RunningCluster::start_with(&folder.path().join("cluster"), &arguments);
    (folder, cluster)
}

pub fn put(cluster: &RunningCluster, folder: &Path, text: &str) {
    let file = rules(folder, text);
    cluster.run(&["route", "put", file.to_str().unwrap()]);
}

/// The status of the switch of a target. `None` while its node is down.
pub fn status(cluster: &RunningCluster, target: &str) -> Option<Value> {
    let output = cluster.command(&["route", "status", "--json"]).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).ok()?;
    all.as_array()?.iter().find(|one| one["target"] == target).cloned()
}

pub fn number(status: Option<&Value>, name: &str) -> Option<u64> {
    status.and_then(|status| status[name].as_u64())
}

pub fn wait_until_home(cluster: &RunningCluster, target: &str) {
    eventually_blocking("all bytes are home", || {
        let status = status(cluster, target);
        number(status.as_ref(), "routed_bytes") == Some(0)
            && number(status.as_ref(), "in_doubt") == Some(0)
    });
}

/// Kills the node `away`, which has copies, then the node `home`, then both at once. `worked` waits until
/// clients have worked on, and `copied` until a copy is current and read.
pub fn kill_in_turn(
    cluster: &RunningCluster,
    (home, away): (&str, &str),
    worked: impl Fn(&str),
    copied: impl Fn(&str),
) {
    let is_back = |node: &str| status(cluster, node).is_some();
    kill(cluster.pid_of(away).unwrap());
    worked("work goes on after the node with the copy was killed");
    eventually_blocking("the node is back", || is_back(away));
    copied("a copy is current again");
    kill(cluster.pid_of(home).unwrap());
    worked("work goes on after the home was killed");
    eventually_blocking("the home is back", || is_back(home));
    copied("the started switch makes copies");
    let (first, second) = (cluster.pid_of(home).unwrap(), cluster.pid_of(away).unwrap());
    kill(first);
    kill(second);
    worked("work goes on after both were killed at once");
    eventually_blocking("both are back", || is_back(home) && is_back(away));
    copied("copies are current after both were killed");
}

/// Finds objects of one target, and another target to which a rule can send their bytes. The map of
/// rules is on neither of these targets.
pub async fn places(cluster: &RunningCluster, names: usize) -> (Vec<String>, String, String) {
    let client = Cluster::connect(cluster.folder()).await.unwrap();
    let keeper = client.locate(&"nacre.system/map/routes".parse().unwrap()).to_string();
    let targets = ["storage.0", "storage.1", "storage.2"];
    let [home, away] = targets.into_iter().filter(|name| *name != keeper).collect::<Vec<_>>()[..]
    else {
        panic!("one target keeps the map")
    };
    let all = (0..).map(|number| format!("r{number}"));
    let is_at_home = |name: &String| {
        let object: ObjectId = format!("data/{name}").parse().unwrap();
        client.locate(&object).as_str() == home
    };
    (all.filter(is_at_home).take(names).collect(), home.to_owned(), away.to_owned())
}

/// When a write that has failed may still become visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// Until somebody has read the bytes without it.
    UntilRead,
    /// Until a later write of the bytes is acknowledged.
    UntilWritten,
}

/// For each block of an object, the values that it may hold: the last acknowledged write, and the
/// failed writes after it.
struct Checked {
    failed: Failed,
    object: Object,
    /// The same object, as the client that reads it has it.
    read_by: Object,
    blocks: Vec<Vec<u64>>,
}

impl Checked {
    async fn write(&mut self, block: u64, value: u64) {
        let data = Bytes::from(value.to_le_bytes().repeat(BLOCK / 8));
        self.blocks[block as usize].push(value);
        if self.object.write(block * BLOCK as u64, data).await.is_ok() {
            self.blocks[block as usize] = vec![value];
        }
    }

    /// Whether it was read.
    async fn read(&mut self) -> bool {
        let read = match self.read_by.read(0, BLOCKS * BLOCK as u64).await {
            Ok(read) => read,
            Err(error) => {
                assert!(is_passing(&error), "{error}");
                return false;
            }
        };
        for (block, possible) in self.blocks.iter_mut().enumerate() {
            let found = read.get(block * BLOCK..(block + 1) * BLOCK);
            let found = found.unwrap_or_else(|| panic!("block {block} is lost"));
            let value = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(found.chunks(8).all(|part| part == &found[..8]), "a torn block");
            let at = possible.iter().position(|one| *one == value);
            let at = at
                .unwrap_or_else(|| panic!("block {block} holds {value}, not one of {possible:?}"));
            possible.drain(..at);
            if self.failed == Failed::UntilRead {
                possible.truncate(1);
            }
        }
        true
    }
}

fn is_passing(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
}

/// Writes and reads an object until `is_over` is set; counts the rounds.
async fn work(mut checked: Checked, is_over: Arc<AtomicBool>, rounds: Arc<AtomicU64>, first: u64) {
    let mut value = first << 32;
    for block in 0..BLOCKS {
        checked.write(block, value).await;
    }
    while !is_over.load(Ordering::Relaxed) {
        value += 1;
        checked.write(value % BLOCKS, value).await;
        if checked.read().await {
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
    while !checked.read().await {}
}

/// Workers on some objects.
pub struct Workers {
    is_over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

/// How far workers are.
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Waits until the workers have done some more.
    pub fn more_rounds(&self, what: &str) {
        let from = self.0.load(Ordering::Relaxed);
        eventually_blocking(what, || self.0.load(Ordering::Relaxed) >= from + 20);
    }
}

impl Workers {
    /// Starts one for each object of the pool `data`.
    pub async fn start(cluster: &RunningCluster, names: &[String]) -> Self {
        let client = Cluster::connect(cluster.folder()).await.unwrap();
        Self::start_with(&client, &client, Failed::UntilRead, names).await
    }

    /// As [`start`](Self::start), with one client that writes and one that reads directly. If the home
    /// dies, a direct read may come before a write that the home had sent.
    pub async fn start_direct(client: &Cluster, reader: &Cluster, names: &[String]) -> Self {
        Self::start_with(client, reader, Failed::UntilWritten, names).await
    }

    async fn start_with(
        client: &Cluster,
        reader: &Cluster,
        failed: Failed,
        names: &[String],
    ) -> Self {
        let (is_over, rounds) = (Arc::default(), Arc::default());
        let mut tasks = vec![];
        for (number, name) in names.iter().enumerate() {
            let id = format!("data/{name}").parse().unwrap();
            let object = client.object(&id).await.unwrap();
            let read_by = reader.object(&id).await.unwrap();
            let blocks = vec![vec![]; BLOCKS as usize];
            let checked = Checked { failed, object, read_by, blocks };
            let work = work(checked, Arc::clone(&is_over), Arc::clone(&rounds), number as u64 + 1);
            tasks.push(tokio::spawn(work));
        }
        Self { is_over, rounds, tasks }
    }

    /// Runs `steps` while workers use the objects, then ends the workers. Each reads its object
    /// once more.
    pub fn while_they_work<R: Send + 'static>(
        self,
        steps: impl FnOnce(&Progress) -> R + Send + 'static,
    ) -> impl Future<Output = R> {
        let Self { is_over, rounds, tasks } = self;
        let stepping = tokio::task::spawn_blocking(move || {
            let kept = steps(&Progress(rounds));
            is_over.store(true, Ordering::Relaxed);
            kept
        });
        async {
            let kept = stepping.await.unwrap();
            for task in tasks {
                task.await.unwrap();
            }
            kept
        }
    }
}
