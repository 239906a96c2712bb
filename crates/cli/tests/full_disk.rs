//! Tests a cluster whose disk is full: it reports this, accepts removals, and works again.

mod common;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{RunningCluster, finish};
use nacre_conformance::SmallDisk;
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Pid, Signal, kill_process};

/// The reserves of three nodes, the files with which the nodes start, and some space more.
const DISK_BYTES: u64 = 448 * 1024 * 1024;
static RECORD: [u8; 20_000] = [b'r'; 20_000];

/// Appends until that is refused.
fn fill(mut append: Command) -> String {
    let mut append = append.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = BufWriter::new(append.stdin.take().unwrap());
    while pipe.write_all(&RECORD).and_then(|()| pipe.write_all(b"\n")).is_ok() {}
    // Drop the buffered bytes: the command has ended and reads no more.
    let _ = pipe.into_parts();
    String::from_utf8(finish(append, "an append to a full disk").stderr).unwrap()
}

/// Somebody else's file, which takes every byte of the disk.
fn take_every_byte(path: &Path) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    for size in [64 * 1024, 1] {
        let zeros = vec![0; size];
        while file.write(&zeros).is_ok_and(|written| written == size) {}
    }
}

#[test]
fn a_full_cluster_reports_it_and_still_accepts_removals() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), DISK_BYTES) else { return };
    let cluster = RunningCluster::start_in(folder.path());
    cluster.run(&["log", "create", "large"]);
    cluster.run(&["map", "set", "m", "a=1"]);
    eventually_blocking("status and events say so", || {
        // Space may become free while the disk counts as full. Fill that, too.
        let said = fill(cluster.command(&["log", "append", "large"]));
        assert!(said.contains("exhausted") && said.contains("are reserved"), "{said}");
        cluster.run(&["status"]).contains("  full: ")
            && cluster.run(&["events"]).contains("the node is full")
    });
    // Maps can still be changed on a full disk.
    cluster.run(&["map", "set", "m", "a=2"]);
    cluster.run(&["log", "remove", "large"]);
    eventually_blocking("there is room", || !cluster.run(&["status"]).contains("full: "));
    cluster.run(&["object", "create", "data/o"]);
}

#[test]
fn a_cluster_recovers_by_itself_after_a_foreign_file_filled_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(folder.path(), DISK_BYTES) else { return };
    let cluster = RunningCluster::start_in(folder.path());
    let content = "c".repeat(100_000);
    for name in ["data/a", "data/b", "data/kept"] {
        cluster.run_with_input(&["object", "put", name], &content);
    }
    cluster.run(&["log", "create", "kept", "--slots", "4"]);
    cluster.run_with_input(&["log", "append", "kept"], &"record\n".repeat(20));
    let foreign = folder.path().join("foreign");
    eventually_blocking("status says what to do", || {
        take_every_byte(&foreign);
        cluster.run(&["status"]).contains("is full: remove objects (`nacre object rm`)")
    });
    let (_, said) = cluster.fails(&["object", "create", "data/refused"]);
    assert!(said.contains("exhausted") && said.contains("nacre log trim"), "{said}");
    // The sequencers' memory is gone, and a full disk takes no claim.
    let sequencers = Pid::from_raw(cluster.pid_of("meta.0").unwrap()).unwrap();
    kill_process(sequencers, Signal::KILL).unwrap();
    assert_eq!(cluster.run(&["log", "read", "kept"]), "record\n".repeat(20));
    cluster.run(&["log", "trim", "kept", "9", "--to"]);
    assert_eq!(cluster.run(&["log", "read", "kept"]), "record\n".repeat(10));
    for name in ["data/a", "data/b"] {
        cluster.run(&["object", "rm", name]);
    }
    assert_eq!(cluster.run(&["object", "get", "data/kept"]), content);
    std::fs::remove_file(&foreign).unwrap();
    eventually_blocking("there is room", || !cluster.run(&["status"]).contains("full: "));
    cluster.run(&["object", "create", "data/new"]);
    eventually_blocking("the events tell both turns", || {
        let events = cluster.run(&["events"]);
        events.contains("the node is full") && events.contains("the node has room again")
    });
    let nodes = cluster.announced["nodes"].as_array().unwrap();
    for node in nodes.iter().filter(|node| node["name"] != "meta.0") {
        let now = cluster.pid_of(node["name"].as_str().unwrap());
        assert_eq!(now.map(i64::from), node["pid"].as_i64(), "no target was started again");
    }
}
