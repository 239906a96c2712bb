//! Shared resources on a real cluster: file types from the standard library, killed nodes, moves.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{RunningCluster, kill, suspend};
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Signal, kill_process};
use serde_json::json;

/// Longer than a test machine takes to take a resource over.
const PATIENCE: Duration = Duration::from_secs(60);

const IDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/filetype/ids.lua");
const LOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/filetype/lock.lua");
const SEQUENCER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/filetype/sequencer.lua");

fn cluster() -> (RunningCluster, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--targets", "1", "--metadata", "2"];
    let cluster = RunningCluster::start_with(folder.path(), &arguments);
    cluster.run(&["program", "put", "filetype/ids", IDS, "--activate"]);
    cluster.run(&["program", "put", "filetype/lock", LOCK, "--activate"]);
    (cluster, folder)
}

#[test]
fn an_allocator_keeps_its_count_when_it_moves_and_when_its_node_dies() {
    let (cluster, _folder) = cluster();
    cluster.run(&["resource", "create", "/ids/orders", "--type", "ids"]);
    let next = || cluster.run(&["resource", "call", "/ids/orders", "next"]);
    assert_eq!((next(), next()), ("1\n".to_owned(), "2\n".to_owned()));
    let node = cluster.run(&["resource", "locate", "/ids/orders"]);
    let other = if node == "meta.0\n" { "meta.1" } else { "meta.0" };
    cluster.run(&["resource", "move", "/ids/orders", other]);
    assert_eq!(cluster.run(&["resource", "locate", "/ids/orders"]), format!("{other}\n"));
    assert_eq!(next(), "3\n");
    cluster.kill_node(other);
    eventually_blocking("the resource is served again", || {
        let peeked = cluster.command(&["resource", "call", "/ids/orders", "peek"]).output();
        peeked.unwrap().stdout == b"4\n"
    });
    let stat = cluster.json(&["resource", "stat", "/ids/orders"]);
    assert_eq!((&stat["survival"], &stat["capability"]), (&"journaled".into(), &json!(null)));
    assert_eq!((&stat["file_type"], &stat["version"]), (&json!("ids"), &json!(3)));
    assert_eq!(cluster.run(&["resource", "ls"]), "/ids/orders\n");
    cluster.run(&["resource", "rm", "/ids/orders"]);
    let (status, said) = cluster.fails(&["resource", "call", "/ids/orders", "peek"]);
    assert_eq!(status, 1);
    assert!(said.contains("there is no resource /ids/orders"), "{said}");
}

#[test]
fn a_lock_is_held_by_one_client_with_a_token_that_only_grows() {
    let (cluster, _folder) = cluster();
    cluster.run(&["resource", "create", "/locks/jobs", "--type", "lock"]);
    let lock = |method: &str, input: &str| {
        cluster.run(&["resource", "call", "/locks/jobs", method, "--input", input])
    };
    let backup = r#"{"name": "backup", "seconds": 60}"#;
    assert_eq!(lock("acquire", backup), "{\"token\":1}\n");
    assert_eq!(lock("acquire", backup), "{\"token\":2}\n", "the same client, anew");
    assert!(lock("holder", r#"{"name": "backup"}"#).contains("\"token\":2"));
    assert_eq!(lock("release", r#"{"name": "backup"}"#), "true\n");
    assert_eq!(lock("holder", r#"{"name": "backup"}"#), "null\n");
    assert_eq!(lock("acquire", backup), "{\"token\":3}\n");
}

#[test]
fn a_wrong_request_to_a_resource_is_refused_with_a_hint() {
    let (cluster, _folder) = cluster();
    let refused = |arguments: &[&str], text: &str| {
        let (_, said) = cluster.fails(arguments);
        assert!(said.contains(text), "{said}");
    };
    refused(&["resource", "create", "orders", "--type", "ids"], "use a path as /seq/orders");
    refused(&["resource", "create", "/a", "--type", "toaster"], "has no active version");
    cluster.run(&["resource", "create", "/a", "--type", "ids"]);
    refused(&["resource", "create", "/a", "--type", "ids"], "there is a resource /a already");
    refused(&["resource", "call", "/a", "toast"], "call one of next, peek");
    refused(&["resource", "call", "/a", "next", "--input", "many"], "the input is not JSON");
    refused(&["resource", "call", "/a", "next", "--input", "0"], "say how many, from 1 to 1000000");
    refused(&["map", "delete", "resource.a"], "remove the resource: nacre resource rm");
    assert_eq!(cluster.run(&["resource", "call", "/a", "peek"]), "1\n", "nothing changed");
}

#[test]
fn a_sequencer_gives_no_position_twice_when_it_moves_and_when_its_node_is_killed() {
    let (cluster, _folder) = cluster();
    cluster.run(&["program", "put", "filetype/sequencer", SEQUENCER, "--activate"]);
    cluster.run(&["resource", "create", "/seq/orders", "--type", "sequencer"]);
    let next = || cluster.run(&["resource", "call", "/seq/orders", "next"]);
    assert_eq!((next(), next()), ("0\n".to_owned(), "1\n".to_owned()));
    let node = cluster.run(&["resource", "locate", "/seq/orders"]);
    let other = if node == "meta.0\n" { "meta.1" } else { "meta.0" };
    cluster.run(&["resource", "move", "/seq/orders", other]);
    assert_eq!((next(), next()), ("2\n".to_owned(), "3\n".to_owned()));
    cluster.kill_node(other);
    eventually_blocking("the resource is served again, past what was reserved", || {
        let read = cluster.command(&["resource", "call", "/seq/orders", "read"]).output();
        read.unwrap().stdout == b"1000001\n"
    });
    assert_eq!(next(), "1000001\n");
}

/// A client that asks for positions, one after another, until it is killed.
struct Holder {
    child: Child,
    positions: Receiver<u64>,
    seen: Vec<u64>,
}

impl Holder {
    /// Starts a holder, and waits until it holds the exclusive capability and has issued positions
    /// with it.
    fn start(cluster: &RunningCluster) -> Self {
        let arguments = ["resource", "call", "/seq/orders", "next", "--repeat", "100000000"];
        let mut command = cluster.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (told, positions) = channel();
        std::thread::spawn(move || {
            // The last line of a killed process may be cut.
            let numbers = lines.map_while(|line| line.ok()?.parse().ok());
            numbers.take_while(|position| told.send(*position).is_ok()).for_each(drop);
        });
        let mut holder = Self { child, positions, seen: vec![] };
        eventually_blocking("it holds the capability", || {
            let stat = cluster.json(&["resource", "stat", "/seq/orders"]);
            stat["holders"].as_array().is_some_and(|holders| !holders.is_empty())
        });
        for _ in 0..100 {
            holder.next();
        }
        holder
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn next(&mut self) -> u64 {
        let position = self.positions.recv_timeout(PATIENCE).expect("it goes on");
        self.seen.push(position);
        position
    }

    /// Kills it; returns all positions that it printed.
    fn end(mut self) -> Vec<u64> {
        kill(self.pid());
        self.child.wait().unwrap();
        self.seen.extend(self.positions.iter());
        self.seen
    }
}

fn sequencer(cluster: &RunningCluster) {
    cluster.run(&["program", "put", "filetype/sequencer", SEQUENCER, "--activate"]);
    cluster.run(&["resource", "create", "/seq/orders", "--type", "sequencer"]);
}

/// The positions that another client gets.
fn others(cluster: &RunningCluster) -> Vec<u64> {
    let arguments = ["resource", "call", "/seq/orders", "next", "--repeat", "20"];
    cluster.run(&arguments).lines().map(|line| line.parse().unwrap()).collect()
}

#[track_caller]
fn assert_none_twice(positions: &[u64]) {
    let distinct: BTreeSet<_> = positions.iter().collect();
    assert_eq!(distinct.len(), positions.len(), "a position was given twice");
}

#[test]
fn a_capability_holder_stopped_for_longer_than_its_lease_gives_no_position_twice() {
    let (cluster, _folder) = cluster();
    sequencer(&cluster);
    let mut holder = Holder::start(&cluster);
    let stopped = suspend(holder.pid());
    let mut positions = others(&cluster);
    let first_of_others = positions[0];
    kill_process(stopped, Signal::CONT).unwrap();
    // It prints what it had, and goes on behind the others.
    while holder.next() < first_of_others {}
    positions.extend(others(&cluster));
    positions.extend(holder.end());
    assert_none_twice(&positions);
}

#[test]
fn a_killed_capability_holder_gives_no_position_twice() {
    let (cluster, _folder) = cluster();
    sequencer(&cluster);
    let mut positions = Holder::start(&cluster).end();
    positions.extend(others(&cluster));
    assert_none_twice(&positions);
}

#[test]
fn a_capability_holder_whose_authority_is_killed_gives_no_position_twice() {
    let (cluster, _folder) = cluster();
    sequencer(&cluster);
    let mut holder = Holder::start(&cluster);
    let node = cluster.run(&["resource", "locate", "/seq/orders"]);
    cluster.kill_node(node.trim_end());
    let mut positions = others(&cluster);
    let first_of_others = positions[0];
    while holder.next() < first_of_others {}
    positions.extend(others(&cluster));
    positions.extend(holder.end());
    assert_none_twice(&positions);
}
