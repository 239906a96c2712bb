//! Tests clients that hold the capability of a log, and so issue its positions themselves. The
//! clients are real processes. The test stops one for longer than its lease, kills one, and kills
//! the sequencer's node.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{RunningCluster, finish, kill, suspend};
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Signal, kill_process};

/// Longer than a test machine takes to recover a log.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the test stops a client until one has the capability at that moment.
const ATTEMPTS: usize = 5;
/// Records after which an appender that is alone holds the capability.
const ALONE: usize = 40;

/// `nacre log append`, fed line by line.
struct Appender {
    child: Child,
    input: ChildStdin,
    positions: Receiver<u64>,
    name: String,
    sent: usize,
    /// What was acknowledged: positions and records.
    acknowledged: Vec<(u64, String)>,
}

impl Appender {
    fn start(cluster: &RunningCluster, name: &str) -> Self {
        let mut child = cluster
            .command(&["log", "append", "l", "--positions", "--any-order"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (told, positions) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _nobody_listens = told.send(line.parse().unwrap());
            }
        });
        let name = name.to_owned();
        Self { child, input, positions, name, sent: 0, acknowledged: vec![] }
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn send(&mut self) {
        writeln!(self.input, "{}{}", self.name, self.sent).unwrap();
        self.sent += 1;
    }

    /// Waits until all records that were sent are acknowledged, and keeps their positions.
    fn acknowledge(&mut self) {
        while self.acknowledged.len() < self.sent {
            let position = self.positions.recv_timeout(PATIENCE).expect("a record is acknowledged");
            let record = format!("{}{}", self.name, self.acknowledged.len());
            self.acknowledged.push((position, record));
        }
    }

    /// Appends records one after the other.
    fn append(&mut self, count: usize) {
        for _ in 0..count {
            self.send();
            self.acknowledge();
        }
    }

    fn end(self) -> Vec<(u64, String)> {
        drop(self.input);
        finish(self.child, "an append whose input has ended");
        self.acknowledged
    }
}

fn cluster() -> (RunningCluster, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--targets", "2", "--metadata", "2"];
    let cluster = RunningCluster::start_with(folder.path(), &arguments);
    cluster.run(&["log", "create", "l"]);
    (cluster, folder)
}

fn epoch(cluster: &RunningCluster) -> u64 {
    cluster.json(&["log", "stat", "l"])["epoch"].as_u64().unwrap()
}

/// Checks that every acknowledged record is in the log once, and that no two records were
/// acknowledged with the same position.
fn check(cluster: &RunningCluster, acknowledged: &[(u64, String)]) {
    let positions: BTreeSet<_> = acknowledged.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions.len(), acknowledged.len(), "no position is given twice");
    let read = cluster.run(&["log", "read", "l"]);
    let mut in_order = acknowledged.to_vec();
    in_order.sort_unstable();
    let known: BTreeSet<_> = in_order.iter().map(|(_, record)| record.as_str()).collect();
    let found: Vec<_> = read.lines().filter(|line| known.contains(line)).collect();
    let expected: Vec<_> = in_order.iter().map(|(_, record)| record.as_str()).collect();
    assert_eq!(found, expected, "each is there once, in the order of the positions");
}

#[test]
fn a_capability_holder_stopped_for_longer_than_its_lease_continues_at_other_positions() {
    let (cluster, _folder) = cluster();
    let mut holder = Appender::start(&cluster, "a");
    holder.append(1);
    let before = epoch(&cluster);
    let mut acknowledged = vec![];
    // On a busy machine the client may return the capability before the test stops it. So the test
    // tries several times.
    for attempt in 0..ATTEMPTS {
        holder.append(ALONE);
        let stopped = suspend(holder.pid());
        // The stopped client finds these records when it continues. Its grant has ended by then.
        (0..5).for_each(|_| holder.send());
        let mut other = Appender::start(&cluster, &format!("b{attempt}:"));
        other.append(ALONE);
        let is_evicted = epoch(&cluster) > before;
        kill_process(stopped, Signal::CONT).unwrap();
        holder.acknowledge();
        for _ in 0..ALONE {
            holder.append(1);
            other.append(1);
        }
        acknowledged.extend(other.end());
        if is_evicted {
            acknowledged.extend(holder.end());
            return check(&cluster, &acknowledged);
        }
    }
    panic!("the holder was never evicted");
}

#[test]
fn other_clients_wait_only_briefly_for_a_killed_capability_holder() {
    let (cluster, _folder) = cluster();
    let mut holder = Appender::start(&cluster, "a");
    holder.append(ALONE);
    kill(holder.pid());
    let mut other = Appender::start(&cluster, "b");
    other.append(ALONE);
    let acknowledged = [holder.end(), other.end()].concat();
    check(&cluster, &acknowledged);
}

#[test]
fn a_capability_holder_whose_authority_is_killed_continues_with_another_authority() {
    let (cluster, _folder) = cluster();
    let mut holder = Appender::start(&cluster, "a");
    holder.append(ALONE);
    let node = cluster.json(&["log", "stat", "l"])["sequencer"].as_str().unwrap().to_owned();
    cluster.kill_node(&node);
    holder.append(ALONE);
    let mut other = Appender::start(&cluster, "b");
    other.append(ALONE);
    eventually_blocking("the node is back", || cluster.pid_of(&node).is_some());
    holder.append(ALONE);
    let acknowledged = [holder.end(), other.end()].concat();
    check(&cluster, &acknowledged);
}

/// Turns so short that two appenders in step do not wait for long.
const TURNS: &str = "function grant(ask) return { operations = 5, hold = 0.02 } end";

#[test]
fn clients_lose_nothing_when_the_capability_program_of_their_log_is_replaced() {
    let (cluster, folder) = cluster();
    let turns = folder.path().join("turns.lua");
    std::fs::write(&turns, TURNS).unwrap();
    cluster.run(&["program", "put", "capability/turns", turns.to_str().unwrap(), "--activate"]);
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/capability");
    for name in ["never", "priority"] {
        let (program, file) = (format!("capability/{name}"), format!("{shipped}/{name}.lua"));
        cluster.run(&["program", "put", &program, &file, "--activate"]);
    }
    let mut one = Appender::start(&cluster, "a");
    let mut other = Appender::start(&cluster, "b");
    for program in ["turns", "never", "priority", "none"] {
        cluster.run(&["log", "set", "l", "--capability", program]);
        let named = cluster.json(&["log", "stat", "l"])["capability"].clone();
        assert_eq!(named.as_str(), Some(program).filter(|program| *program != "none"));
        for _ in 0..ALONE {
            (0..4).for_each(|_| {
                one.send();
                other.send();
            });
            one.acknowledge();
            other.acknowledge();
        }
    }
    check(&cluster, &[one.end(), other.end()].concat());
}
