//! Tests that an interrupted long command fails, and leaves nothing that could be taken for a
//! result.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::follower::Follower;
use common::{NACRE, RunningCluster, finish};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/kv.brados");

/// The exit status of a command that SIGINT ended.
const INTERRUPTED: i32 = 128 + 2;
/// The exit status of a command that SIGTERM ended.
const TERMINATED: i32 = 128 + 15;

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

/// Runs a command in a folder, and interrupts it when it says that it is measuring. Returns its
/// status, and its output after the interrupt.
fn interrupt(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut running = Command::new(NACRE)
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("measuring"), "{arguments:?}: {line}");
    send(&running, Signal::INT);
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    (finish(running, "an interrupted command").status.code(), rest)
}

#[test]
fn a_measuring_command_fails_when_it_is_interrupted_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), "objects 4\nmix 1 get 'key'\n").unwrap();
    let long = ["--seconds", "60"];
    for arguments in [&["brados", "profile"][..], &["brados", "tune", PROGRAM, "--workload", "w"]] {
        let (status, said) = interrupt(folder.path(), &[arguments, &long[..]].concat());
        assert_eq!(status, Some(INTERRUPTED), "{arguments:?}: {said}");
        assert!(said.ends_with("nacre: unavailable: interrupted\n"), "{arguments:?}: {said}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(left.len(), 1, "{arguments:?}: {left:?}");
    }
}

#[test]
fn a_command_that_still_reads_its_program_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("w"), "objects 4\nmix 1 get 'key'\n").unwrap();
    let mut tune = Command::new(NACRE)
        .args(["brados", "tune", "-", "--workload", "w"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut program = tune.stdin.take().unwrap();
    // These bytes do not fit into a pipe. So after the write the command is reading.
    program.write_all(&vec![b'#'; 256 * 1024]).unwrap();
    // SIGINT would not work here, because a shell makes its background processes ignore it.
    send(&tune, Signal::TERM);
    // A command that ignored the signal would now read the end of the program.
    drop(program);
    assert_eq!(finish(tune, "a terminated tune").status.signal(), Some(Signal::TERM.as_raw()));
}

/// The text between two others.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} in {rest}")).0
}

/// So many lines that name their numbers, from 1.
fn numbered(count: u64) -> String {
    (1..=count).map(|n| format!("line {n}\n")).collect()
}

#[test]
fn an_interrupted_append_names_its_last_line_and_leaves_no_hole() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let lines = numbered(200_000);
    let file = cluster.folder().join("lines");
    fs::write(&file, &lines).unwrap();
    let mut append = cluster
        .command(&["log", "append", "l", file.to_str().unwrap(), "--positions"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut positions = BufReader::new(append.stdout.take().unwrap()).lines();
    // Some batches are in, and others on their way.
    assert_eq!(positions.by_ref().take(2000).count(), 2000);
    send(&append, Signal::INT);
    let told = 2000 + positions.count() as u64;
    let output = finish(append, "an append that a signal ends");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(INTERRUPTED), "{said}");
    assert!(told < 200_000, "it ended before the signal");
    assert!(
        said.starts_with(&format!("{told} records appended; the last is line {told}")),
        "{said}"
    );
    assert!(said.ends_with("nacre: unavailable: interrupted\n"), "{said}");
    assert_eq!(cluster.run(&["log", "read", "l"]), numbered(told), "a prefix of the file");

    // The printed command appends the remaining lines, each once.
    let go_on = between(&said, "go on with `", "`");
    let rest = fs::read_to_string(&file).unwrap();
    let rest: String = rest.split_inclusive('\n').skip(told as usize).take(1000).collect();
    fs::write(&file, numbered(told) + &rest).unwrap();
    let folder = Path::new(NACRE).parent().unwrap().display();
    #[expect(clippy::disallowed_methods, reason = "the shell finds its commands by PATH")]
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", go_on]).env("PATH", path).env("NACRE_CLUSTER", cluster.folder());
    assert!(shell.status().unwrap().success(), "{go_on}");
    assert_eq!(cluster.run(&["log", "read", "l"]), numbered(told + 1000));
}

#[test]
fn a_terminated_append_does_not_wait_for_the_end_of_its_input() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    let mut append = cluster
        .command(&["log", "append", "l", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = append.stdin.take().unwrap();
    input.write_all(b"line 1\nline 2\nhalf a li").unwrap();
    let positions = BufReader::new(append.stdout.take().unwrap()).lines();
    assert_eq!(positions.take(2).count(), 2);
    send(&append, Signal::TERM);
    let output = finish(append, "an append that a signal ends");
    // Only now does the input end.
    drop(input);
    assert_eq!(output.status.code(), Some(TERMINATED));
    let said = String::from_utf8(output.stderr).unwrap();
    let told: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let expected = serde_json::json!({ "appended": 2, "last_line": 2, "last_position": 1,
        "in_log": [[1, 2]], "failed": [], "unknown": [], "next_line": 3, "interrupted": true });
    assert_eq!(told, expected);
    assert_eq!(cluster.run(&["log", "read", "l"]), numbered(2));
}

#[test]
fn a_command_that_follows_ends_as_soon_as_its_reader_is_gone() {
    let cluster = RunningCluster::start();
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "one\n");
    cluster.run(&["map", "set", "m", "a=1"]);
    for follow in [
        &["log", "follow", "l"][..],
        &["map", "watch", "m", "--from", "0"],
        &["events", "--follow", "--limit", "1"],
    ] {
        let mut follower = Follower::start(cluster.command(follow));
        follower.next_line();
        // Nothing happens that it could print.
        assert_eq!(follower.end_without_reader().code(), Some(0), "{follow:?}");
    }
}
