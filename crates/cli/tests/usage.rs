//! What is asked wrongly, and how that is told.

mod common;

use std::process::Command;

use common::{NACRE, RunningCluster};

#[test]
fn a_wrong_question_is_told_from_a_failure() {
    let cluster = RunningCluster::start();
    assert_eq!(cluster.fails(&["object", "get", "nopool"]).0, 2);
    assert_eq!(cluster.fails(&["object", "get"]).0, 2);
    assert_eq!(cluster.fails(&["log", "create", "a/b"]).0, 2);
    let (status, said) = cluster.fails(&["object", "get", "nopool/x"]);
    assert_eq!(status, 1);
    assert!(said.contains("nacre pool create nopool"), "{said}");
    let (status, said) = cluster.fails(&["class", "call", "data/x", "noclass", "f"]);
    assert_eq!(status, 1);
    assert!(said.contains("noclass"), "{said}");
}

#[test]
fn what_asks_no_running_cluster_takes_no_identity() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(NACRE);
        command.args(arguments).current_dir(folder.path()).env("NACRE_IDENTITY", "nosuch.json");
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for command in [
        &["up"][..],
        &["init"],
        &["demo"],
        &["bench", "append"],
        &["node", "--name", "x"],
        &["brados", "proposals", "--help"],
        &["brados", "check", "f"],
        &["program", "test", "f"],
    ] {
        let (status, said) = run(&[&["--identity", "me.json"], command].concat());
        match command.contains(&"--help") {
            true => assert_eq!(status, 0, "{command:?}: {said}"),
            false => {
                assert!(status == 2 && said.contains("takes no identity"), "{command:?}: {said}")
            }
        }
    }
    assert!(!folder.path().join("nacre-data").exists());
    assert_eq!(run(&["init"]).0, 0, "a variable says nothing to it");
    assert!(run(&["status"]).1.contains("nosuch.json"));
}

#[test]
fn a_variable_that_is_empty_is_not_set() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(NACRE);
        command.args(arguments).current_dir(folder.path());
        let output = command.env("NACRE_CLUSTER", "").env("NACRE_IDENTITY", "").output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["init"]).0, 0);
    assert!(folder.path().join("nacre-data/cluster.json").exists());
    assert!(run(&["status"]).1.contains("nacre up"));
    assert_eq!(run(&["status", "--cluster", ""]).0, 2);
    assert_eq!(run(&["status", "--identity", ""]).0, 2);
}

#[test]
fn whoever_reads_json_is_told_in_json_what_is_wrong_with_the_line() {
    for arguments in [&["--json"][..], &["sttus", "--json"], &["object", "get", "--json", "x"]] {
        let output = Command::new(NACRE).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        let error: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(error["error"]["kind"], "invalid", "{said}");
    }
    let output = Command::new(NACRE).args(["--json", "--help"]).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"A programmable"));
}
