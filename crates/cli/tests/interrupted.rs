//! Long commands that are interrupted have failed, and leave nothing that could be taken for a result; nor do
//! those leave anything whose reader has gone.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::NACRE;
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/kv.brados");

/// Interrupts a command in a folder when it says that it is measuring; its status and what it said since.
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
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    (running.wait().unwrap().code(), rest)
}

#[test]
fn what_measures_fails_when_it_is_interrupted_and_keeps_nothing() {
    let [folder, scratch] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let scratch = scratch.path().to_str().unwrap();
    fs::write(folder.path().join("w"), "objects 4\nmix 1 get 'key'\n").unwrap();
    let long = ["--seconds", "60"];
    for arguments in [
        &["brados", "profile"][..],
        &["brados", "tune", PROGRAM, "--workload", "w"],
        &["bench", "object", "--folder", scratch],
        &["experiment", "brados-4-append-throughput", "--out", "figures"],
    ] {
        let (status, said) = interrupt(folder.path(), &[arguments, &long[..]].concat());
        assert_eq!(status, Some(1), "{arguments:?}: {said}");
        assert!(said.ends_with("nacre: unavailable: interrupted\n"), "{arguments:?}: {said}");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
        assert_eq!(left.len(), 1, "{arguments:?}: {left:?}");
    }
}

#[test]
fn what_is_still_told_its_program_is_interrupted_like_any_other() {
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
    // More than a pipe holds: once it is written, it is being read.
    program.write_all(&vec![b'#'; 256 * 1024]).unwrap();
    // Not by SIGINT, which what a shell runs in the background was told to ignore.
    kill_process(Pid::from_raw(tune.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    // Who goes on in spite of it finds the program's end.
    drop(program);
    assert_eq!(tune.wait().unwrap().signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn what_measures_ends_all_it_started_though_its_reader_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(NACRE)
        .args(["bench", "read", "--seconds", "0.05", "--rounds", "1", "--folder"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Before the first figure.
    drop(bench.stdout.take());
    assert_eq!(bench.wait().unwrap().code(), Some(0));
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(Result::unwrap).collect();
    assert!(left.is_empty(), "{left:?}");
}
