//! Tests the error messages for wrong usage.

mod common;

use std::process::Command;

use common::follower::Follower;
use common::{NACRE, RunningCluster};

#[test]
fn a_usage_error_has_another_exit_status_than_a_failure() {
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
fn a_command_that_needs_no_running_cluster_takes_no_identity() {
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
        &["node", "--name", "x"],
        &["brados", "adopt", "--help"],
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
fn an_empty_environment_variable_counts_as_not_set() {
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
fn a_usage_error_is_printed_as_json_with_the_option_json() {
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

/// Bytes that are no text, and look like several entries.
const BINARY: [u8; 8] = [0xff, 0, b'=', b'\n', b'@', 0x80, b' ', b'='];

#[test]
fn a_value_comes_from_a_file_byte_for_byte() {
    let cluster = RunningCluster::start();
    let path = cluster.folder().join("value");
    std::fs::write(&path, BINARY).unwrap();
    let from_file = format!("b={}", path.display());
    let bytes = |arguments: &[&str]| {
        let output = cluster.command(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    for noun in ["map", "attr"] {
        let set = ["object", noun, "set", "data/a", "a=1=2", "--value-file", &from_file];
        cluster.run(&set);
        assert_eq!(bytes(&["object", noun, "get", "data/a", "b"])[..8], BINARY, "{noun}");
        assert_eq!(bytes(&["object", noun, "get", "data/a", "a"]), b"1=2\n", "{noun}");
        let piped = ["object", noun, "set", "data/a", "--value-file", "c=-"];
        cluster.run_with_input(&piped, "from a pipe");
        assert_eq!(bytes(&["object", noun, "get", "data/a", "c"]), b"from a pipe\n", "{noun}");
    }
    cluster.run(&["map", "set", "m", "a=1", "--value-file", &from_file]);
    let stored = cluster.json(&["map", "get", "m", "b"]);
    assert_eq!(stored["value"]["hex"], "ff003d0a4080203d", "{stored}");
    assert_eq!(cluster.fails(&["map", "set", "m", "a=1", "--value-file", "a=f"]).0, 2);
    assert_eq!(cluster.fails(&["object", "map", "set", "data/a"]).0, 2);
    assert_eq!(cluster.fails(&["object", "map", "set", "data/a", "--value-file", "b=/no"]).0, 1);
}

#[test]
fn a_map_can_be_deleted_and_a_mistyped_name_creates_none() {
    let cluster = RunningCluster::start();
    cluster.run(&["map", "set", "conf", "a=1"]);
    let (status, said) = cluster.fails(&["map", "rm", "cnof", "a"]);
    assert!(status == 1 && said.contains("there is no map cnof"), "{said}");
    assert_eq!(cluster.run(&["map", "ls"]), "conf\n");

    assert_eq!(cluster.fails(&["map", "delete", "conf", "--epoch", "7"]).0, 1);
    let mut watch = Follower::start(cluster.command(&["map", "watch", "conf", "--from", "0"]));
    assert!(watch.next_line().contains("a=1"), "it watches");
    assert_eq!(cluster.run(&["map", "delete", "conf", "--epoch", "1"]), "epoch 2\n");
    assert_eq!(watch.next_line(), "epoch 2", "the watcher is shown the map as it is now");

    assert_eq!(cluster.run(&["map", "ls"]), "");
    assert_eq!(cluster.run(&["map", "history", "conf"]), "");
    assert!(cluster.fails(&["map", "delete", "conf"]).1.contains("there is no map conf"));
    assert_eq!(cluster.run(&["map", "set", "conf", "b=1"]), "epoch 3\n");
    assert_eq!(cluster.run(&["map", "ls"]), "conf\n");
    for map in ["pools", "log.l"] {
        assert_eq!(cluster.fails(&["map", "delete", map]).0, 2, "{map}");
    }
}

#[test]
fn a_log_shows_its_first_readable_position() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let first = || cluster.json(&["log", "stat", "l"])["first_readable"].as_u64();
    assert_eq!(first(), Some(0));
    cluster.run_with_input(&["log", "append", "l"], &"record\n".repeat(40));
    assert_eq!(first(), Some(0));
    cluster.run(&["log", "trim", "l", "--to", "16"]);
    cluster.run(&["log", "trim", "l", "17"]);
    cluster.run(&["log", "trim", "l", "20"]);
    assert_eq!(first(), Some(18));
    assert!(cluster.run(&["log", "stat", "l"]).contains("first readable  18"));
    cluster.run(&["log", "trim", "l", "--to", "39"]);
    assert_eq!(first(), Some(40), "all are trimmed: it is the tail");
}

/// Command lines in the current syntax, each with the form that earlier releases took.
#[test]
fn one_syntax_holds_for_all_commands_and_former_spellings_still_work() {
    let cluster = RunningCluster::start();
    let file = cluster.folder().join("c.lua");
    for version in 1..=2 {
        let source = format!("function f(_, out) out:append('{version}') end objclass.register(f)");
        std::fs::write(&file, source).unwrap();
        cluster.run(&["program", "put", "class/c", file.to_str().unwrap(), "--activate"]);
    }
    cluster.run(&["log", "create", "l"]);
    for (line, former) in [
        ("class call data/o c@2 f", "class call data/o c f --class-version 2"),
        ("program show class/c@1", "program show class/c --program-version 1"),
        ("program diff class/c@1 class/c@2", "program diff class/c 1 2"),
        ("program wait class/c@2", "program wait class/c 2"),
        ("object map set data/o k=v", "object map set data/o k v"),
        ("object attr set data/o k=v", "object attr set data/o k v"),
        ("pool ls", "pool list"),
        ("log ls", "log list"),
        ("map ls", "map list"),
        ("object map ls data/o", "object map list data/o"),
        ("object attr ls data/o", "object attr list data/o"),
        ("program ls", "program list"),
        ("entity ls", "entity list"),
    ] {
        let run = |line: &str| cluster.run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(run(line), run(former), "{line}");
    }
    let (status, said) = cluster.fails(&["class", "call", "data/o", "c@1", "f"]);
    assert!(status == 1 && said.contains("stale"), "{said}");
    assert_eq!(cluster.fails(&["program", "show", "class/c@x"]).0, 2);
    assert_eq!(cluster.fails(&["program", "wait", "class/c"]).0, 2);
    assert_eq!(cluster.fails(&["program", "diff", "class/c@1", "class/d@2"]).0, 2);
    cluster.run(&["program", "rm", "class/c@1"]);
    cluster.run(&["log", "rm", "l"]);
    let help = cluster.run(&["log", "--help"]);
    assert!(help.contains("  rm ") && !help.contains("remove  "), "{help}");
}
