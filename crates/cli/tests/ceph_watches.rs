//! Tests on Ceph that nobody waits for commands and nodes that have ended: their watches are gone.

mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Pid, Signal, kill_process};

use common::{NACRE, RunningCluster};

const ACCOUNT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/account.brados");
const NOBODY: [&str; 0] = [];

#[test]
fn commands_and_nodes_leave_no_watches_however_they_end() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folder = tempfile::tempdir().unwrap();

    let mut cluster = RunningCluster::start_with(folder.path(), &["--engine", &engine]);
    cluster.run(&["log", "create", "l"]);
    assert_ne!(ceph.watchers("nacre"), NOBODY);
    assert!(cluster.stop());
    assert_eq!(ceph.watchers("nacre"), NOBODY, "after the node was stopped");

    let tested = finish(test(&engine, &["--layout", "map"]));
    assert!(tested.status.success(), "{}", said(&tested));
    assert_eq!(ceph.watchers("nacre"), NOBODY, "after a command that worked");

    let wrong: PathBuf = folder.path().join("wrong.test");
    std::fs::write(&wrong, "== a case\nbalance nil -> holds(1)\n").unwrap();
    let tested = finish(test(&engine, &[wrong.to_str().unwrap(), "--layout", "map"]));
    assert_eq!(tested.status.code(), Some(1), "{}", said(&tested));
    assert_eq!(ceph.watchers("nacre"), NOBODY, "after a command that failed");

    let testing = test(&engine, &["--layouts", "1000"]);
    eventually_blocking("the test has objects", || {
        ceph.client("rados", &["-p", "nacre", "--all", "ls"]).contains("test-")
    });
    let pid = Pid::from_raw(testing.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let tested = finish(testing);
    assert!(said(&tested).contains("interrupted"), "{}", said(&tested));
    assert_eq!(ceph.watchers("nacre"), NOBODY, "after a command that was interrupted");
    let left = ceph.client("rados", &["-p", "nacre", "--all", "ls"]);
    assert!(!left.contains("test-"), "{left}");
}

fn test(engine: &str, more: &[&str]) -> Child {
    Command::new(NACRE)
        .args(["program", "test", ACCOUNT, "--engine", engine])
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(child: Child) -> Output {
    common::finish(child, "a test of a program")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
