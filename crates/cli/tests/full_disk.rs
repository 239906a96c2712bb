//! A cluster whose disk is full: it says so, can be made room in, and works again.

mod common;

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use common::RunningCluster;
use nacre_conformance::SmallDisk;

/// What is held back, what three nodes take at the beginning, and some.
const DISK_BYTES: u64 = 448 * 1024 * 1024;
static RECORD: [u8; 20_000] = [b'r'; 20_000];

/// Appends until that is refused.
fn fill(mut append: Command) -> String {
    let mut append = append.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = BufWriter::new(append.stdin.take().unwrap());
    while pipe.write_all(&RECORD).and_then(|()| pipe.write_all(b"\n")).is_ok() {}
    // What it holds nobody takes any more.
    let _ = pipe.into_parts();
    String::from_utf8(append.wait_with_output().unwrap().stderr).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    println!("waiting until {what}");
    while !is_so() {}
}

#[test]
fn a_full_cluster_says_so_and_takes_what_makes_room() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), DISK_BYTES) else { return };
    let cluster = RunningCluster::start_in(folder.path());
    cluster.run(&["log", "create", "large"]);
    cluster.run(&["map", "set", "m", "a=1"]);
    until("status and events say so", || {
        // What comes free once it is full is filled as well.
        let said = fill(cluster.command(&["log", "append", "large"]));
        assert!(said.contains("exhausted") && said.contains("are reserved"), "{said}");
        cluster.run(&["status"]).contains("  full: ")
            && cluster.run(&["events"]).contains("the node is full")
    });
    // A map may still say what is to be done.
    cluster.run(&["map", "set", "m", "a=2"]);
    cluster.run(&["log", "remove", "large"]);
    until("there is room", || !cluster.run(&["status"]).contains("full: "));
    cluster.run(&["object", "create", "data/o"]);
}
