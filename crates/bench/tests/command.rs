//! The `nacre-bench` command: an interrupted run fails, and no run leaves processes or files
//! behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nacre_conformance::wait::within_deadline_blocking;
use rustix::process::{Pid, Signal, kill_process};

const NACRE_BENCH: &str = env!("CARGO_BIN_EXE_nacre-bench");
/// The exit status of a command that SIGINT ended.
const INTERRUPTED: i32 = 128 + 2;

fn finish(child: Child) -> Output {
    within_deadline_blocking("the end of nacre-bench", || child.wait_with_output()).unwrap()
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(NACRE_BENCH).args(arguments).current_dir(folder).output().unwrap()
}

/// Interrupts a command when it prints that it is measuring. Returns its status and its later
/// output.
fn interrupt(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    interrupt_at(folder, arguments, "measuring")
}

/// Interrupts a command when it prints a line with this beginning, unless it has ended by itself.
fn interrupt_at(folder: &Path, arguments: &[&str], beginning: &str) -> (Option<i32>, String) {
    let mut running = Command::new(NACRE_BENCH)
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
    while !line.starts_with(beginning) {
        line.clear();
        if said.read_line(&mut line).unwrap() == 0 {
            return (finish(running).status.code(), String::new());
        }
        if line.starts_with("nacre:") {
            return (finish(running).status.code(), line);
        }
    }
    kill_process(Pid::from_raw(running.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    (finish(running).status.code(), rest)
}

fn entries(folder: &Path) -> Vec<fs::DirEntry> {
    fs::read_dir(folder).unwrap().map(Result::unwrap).collect()
}

#[test]
fn an_interrupted_measurement_fails_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["object", "--seconds", "60"][..],
        &["experiment", "brados-4-append-throughput", "--out", "figures", "--seconds", "60"],
    ] {
        let (status, said) = interrupt(folder.path(), arguments);
        assert_eq!(status, Some(INTERRUPTED), "{arguments:?}: {said}");
        assert!(said.ends_with("nacre: unavailable: interrupted\n"), "{arguments:?}: {said}");
        let left = entries(folder.path());
        assert!(left.is_empty(), "{arguments:?}: {left:?}");
    }
}

/// The files behind loop devices.
fn loop_files() -> Vec<String> {
    let devices = fs::read_dir("/sys/block").unwrap();
    let files = devices.map(|device| device.unwrap().path().join("loop/backing_file"));
    files.filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// As root, on a kernel that can slow disks down, the test interrupts the command while it uses
/// such disks. Elsewhere the command refuses to measure.
#[test]
fn an_interrupted_measurement_on_throttled_disks_leaves_no_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (status, said) =
        interrupt_at(folder.path(), &["slo-keep", "--seconds", "60"], "measuring writes of 512");
    let is_refused = status == Some(1) && said.starts_with("nacre: unsupported:");
    assert!(status == Some(INTERRUPTED) || is_refused, "{status:?}: {said}");
    let path = folder.path().to_str().unwrap();
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(path), "{mounts}");
    assert!(loop_files().iter().all(|file| !file.contains(path)), "{:?}", loop_files());
    let left = entries(folder.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_measurement_whose_reader_is_gone_succeeds_and_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(NACRE_BENCH)
        .args(["read", "--seconds", "0.05", "--rounds", "1"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Before the first figure.
    drop(bench.stdout.take());
    assert_eq!(finish(bench).status.code(), Some(0));
    let left = entries(folder.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_simulated_figure_is_written_drawn_and_drawn_again() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = ["experiment", "malacology-back-off", "--out", "figures"];
    let ran = run(folder.path(), &simulate);
    assert!(ran.status.success(), "{ran:?}");
    let figure = folder.path().join("figures/malacology-back-off");
    let drawn = fs::read_to_string(figure.join("throughput.svg")).unwrap();
    fs::remove_file(figure.join("throughput.svg")).unwrap();
    let again = run(folder.path(), &[&simulate[..], &["--redraw"]].concat());
    assert!(again.status.success(), "{again:?}");
    assert_eq!(fs::read_to_string(figure.join("throughput.svg")).unwrap(), drawn);

    let engine = ["--engine", "ceph:/etc/ceph/ceph.conf"];
    let refused = run(folder.path(), &[&simulate[..], &engine].concat());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("is not measured on an engine"), "{said}");
    for (figure, option, because) in [
        ("malacology-updates", ["--ceph-cluster", "script"], "measured on nodes of its own"),
        ("malacology-modes", ["--ceph-cluster", "script"], "is not measured on CephFS"),
        ("brados-5-random-reads", ["--build", "build.json"], "need a figure of balancing"),
        ("mantle-9-compile-speedup", ["--build", "none.json"], "none.json"),
    ] {
        let refused = run(folder.path(), &[&["experiment", figure], &option[..]].concat());
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(because), "{figure}: {said}");
    }
}

#[test]
fn json_of_a_command_is_drawn_and_other_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let figure = |name: &str, ratio: f64| {
        format!(
            r#"{{"bench":"append","figure":"{name}","unit":"/s","ours":2,"baseline":1,"baseline_name":"raw","ratio":{ratio}}}"#
        )
    };
    let figures = format!("{}\n{}\n", figure("128 B", 0.4), figure("4096 B", 0.3));
    fs::write(folder.path().join("figures.json"), figures).unwrap();
    let drawn = run(folder.path(), &["plot", "figures.json"]);
    assert!(drawn.status.success(), "{drawn:?}");
    let svg = fs::read_to_string(folder.path().join("figures.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("4096 B") && svg.contains("raw"), "{svg}");

    fs::write(folder.path().join("rows.json"), r#"{"at":1,"rate":5}{"at":2,"rate":7}"#).unwrap();
    let refused = run(folder.path(), &["plot", "rows.json"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("--x FIELD --y FIELD"), "{said}");
    let drawn =
        run(folder.path(), &["plot", "rows.json", "--x", "at", "--y", "rate", "--out", "r.svg"]);
    assert!(drawn.status.success() && folder.path().join("r.svg").exists(), "{drawn:?}");

    fs::write(folder.path().join("no.json"), "{").unwrap();
    let refused = run(folder.path(), &["plot", "no.json"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("no.json is not JSON"), "{said}");
}
