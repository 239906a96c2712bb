//! A cluster that is ended, in part or wholly, in order or not, and goes on.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::follower::Follower;
use common::{NACRE, RunningCluster, kill, suspend};
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::wait::eventually_blocking;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");

#[test]
fn everything_survives_a_restart_of_the_cluster() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    cluster.run(&["map", "set", "m", "a=1"]);
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\ntwo\n");
    assert!(cluster.stop(), "it ends with status 0");
    let (status, said) = cluster.fails(&["status"]);
    assert_eq!(status, 1);
    assert!(said.contains("nacre up"), "{said}");

    // A copy of a cluster may come without what its processes leave.
    fs::remove_dir_all(scratch.path().join("run")).unwrap();
    let cluster = RunningCluster::start_in(scratch.path());
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    assert_eq!(cluster.run(&["map", "get", "m", "a"]), "1\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\n");
    cluster.run_with_input(&["log", "append", "l"], "three\n");
    assert_eq!(cluster.run(&["log", "read", "l"]), "one\ntwo\nthree\n");
}

#[test]
fn a_killed_node_is_started_again_and_has_what_it_had() {
    let cluster = RunningCluster::start();
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    let node = cluster.run(&["object", "locate", "data/a"]).trim().to_owned();
    let killed = cluster.kill_node(&node);
    // The read waits for the node, which is somebody else by then.
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    assert_ne!(cluster.pid_of(&node), Some(killed));
}

/// Whether the cluster's maps have a node as up.
fn is_up(cluster: &RunningCluster, node: &str) -> bool {
    let status = cluster.json(&["program", "status", "class/counter"]);
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().find(|line| line["node"] == node).unwrap()["up"].as_bool().unwrap()
}

#[test]
fn a_node_that_does_not_start_any_more_is_waited_for_by_nobody_until_it_does() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("counter.lua");
    fs::write(&file, COUNTER).unwrap();
    let put = ["program", "put", "class/counter", file.to_str().unwrap(), "--activate"];
    cluster.run(&put);
    assert!(is_up(&cluster, "meta.0"));
    // Where it listens is something that it will not remove.
    let socket = cluster.folder().join("run/meta.0.sock");
    let nodes = cluster.announced["nodes"].as_array().unwrap();
    let pid = nodes.iter().find(|node| node["name"] == "meta.0").unwrap()["pid"].as_i64().unwrap();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "").unwrap();
    kill(i32::try_from(pid).unwrap());
    fs::write(&file, COUNTER.replace("tostring(sum)", "'now ' .. sum")).unwrap();
    assert_eq!(cluster.run(&put), "class/counter version 2, active on every node\n");
    assert!(!is_up(&cluster, "meta.0"));
    fs::remove_file(&socket).unwrap();
    eventually_blocking("meta.0 is up again", || is_up(&cluster, "meta.0"));
    cluster.run(&["program", "wait", "class/counter", "2"]);
}

#[test]
fn one_cluster_a_folder_and_nothing_left_behind() {
    let mut cluster = RunningCluster::start();
    let folder = cluster.folder().to_str().unwrap().to_owned();
    let again = Command::new(NACRE).args(["up", "--cluster", &folder]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is running already"));
    let nodes = cluster.announced["nodes"].as_array().unwrap().clone();
    assert!(cluster.stop());
    for node in nodes {
        let process = format!("/proc/{}", node["pid"]);
        assert!(!std::path::Path::new(&process).exists(), "{} is gone", node["name"]);
    }
}

#[test]
fn a_node_of_a_killed_supervisor_is_waited_for_while_it_leaves() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    cluster.kill();
    // From here on this test is what takes so long to leave.
    let leaving = fs::File::open(scratch.path().join("run/meta.0.lock")).unwrap();
    flock(&leaving, FlockOperation::LockExclusive).unwrap();
    let folder = scratch.path().to_owned();
    let next = std::thread::spawn(move || RunningCluster::start_in(&folder));
    let log = scratch.path().join("run/meta.0.log");
    eventually_blocking("meta.0 waits for the process before it", || {
        assert!(!next.is_finished(), "it started, or gave up");
        fs::read_to_string(&log).unwrap().contains("waiting for the process before this one")
    });
    drop(leaving);
    assert_eq!(next.join().unwrap().run(&["object", "get", "data/a"]), "kept");
}

/// A cluster that waits for its clients' long polls takes eight seconds; one that does not, one.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Clients that wait for a record, a commit and an event.
fn followers(cluster: &RunningCluster) -> [Follower; 3] {
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\n");
    cluster.run(&["map", "set", "m", "a=1"]);
    let follow = [
        &["log", "follow", "l"][..],
        &["map", "watch", "m", "--from", "0"],
        &["events", "--follow", "--limit", "1"],
    ];
    let mut followers = follow.map(|arguments| Follower::start(cluster.command(arguments)));
    for follower in &mut followers {
        follower.next_line();
    }
    followers
}

#[test]
fn a_cluster_stops_although_clients_follow_it_and_they_go_on_after_the_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let mut cluster = RunningCluster::start_in(scratch.path());
    let [mut records, mut commits, mut events] = followers(&cluster);
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    assert!(cluster.stop());
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");

    let cluster = RunningCluster::start_in(scratch.path());
    cluster.run_with_input(&["log", "append", "l"], "two\n");
    assert_eq!(records.next_line(), "two");
    cluster.run(&["map", "set", "m", "a=2"]);
    assert!(commits.next_line().ends_with("  a=2"));
    let source = cluster.folder().join("counter.lua");
    fs::write(&source, COUNTER).unwrap();
    let put = ["program", "put", "class/counter", source.to_str().unwrap(), "--activate"];
    cluster.run(&put);
    while !events.next_line().contains("class/counter version 1 is active") {}
}

#[test]
fn a_node_that_is_told_to_end_is_back_soon_although_clients_follow_it() {
    let cluster = RunningCluster::start();
    let [mut records, ..] = followers(&cluster);
    let before = cluster.pid_of("meta.0").unwrap();
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    kill_process(Pid::from_raw(before).unwrap(), Signal::TERM).unwrap();
    eventually_blocking("meta.0 is another process", || {
        cluster.pid_of("meta.0").is_some_and(|pid| pid != before)
    });
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");
    cluster.run_with_input(&["log", "append", "l"], "two\n");
    assert_eq!(records.next_line(), "two");
}

#[test]
fn a_second_signal_ends_a_node_that_does_not_stop() {
    let scratch = tempfile::tempdir().unwrap();
    let (said, says) = std::io::pipe().unwrap();
    let mut cluster = RunningCluster::start_told(scratch.path(), &[], Stdio::from(says));
    let pid = cluster.pid_of("meta.0").unwrap();
    suspend(pid);
    cluster.terminate();
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).unwrap();
    assert!(line.contains("a second signal ends every node"), "{line}");
    let clock = SystemClock::default();
    let begun = clock.monotonic();
    cluster.terminate();
    assert!(cluster.ended());
    let took = clock.monotonic() - begun;
    assert!(took < STOPS_WITHIN, "{took:?}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "meta.0 is gone");
}

#[test]
fn a_cluster_in_a_deep_folder_is_reached_by_its_absolute_path() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("x".repeat(100)).join("y".repeat(100));
    let mut cluster = RunningCluster::start_in(&folder);
    cluster.run_with_input(&["object", "put", "data/a"], "kept");
    assert_eq!(cluster.run(&["object", "get", "data/a"]), "kept");
    let status = cluster.run(&["status", "--json"]);
    // The supervisor is reached as well.
    assert!(status.lines().all(|line| line.contains("\"supervisor\":")), "{status}");
    assert!(cluster.stop());
}
