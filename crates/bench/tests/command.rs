//! The `nacre-bench` command: an interrupted run fails, and no run leaves processes or files
//! behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nacre_conformance::wait::{eventually_blocking, within_deadline_blocking};
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

/// As root, on a kernel that can slow disks down, the test interrupts the commands while they use
/// such disks. Elsewhere they refuse to measure.
#[test]
fn an_interrupted_measurement_on_throttled_disks_leaves_no_disk() {
    for bench in ["slo-keep", "slo-admit"] {
        let folder = tempfile::tempdir().unwrap();
        let (status, said) =
            interrupt_at(folder.path(), &[bench, "--seconds", "60"], "measuring writes of 512");
        let is_refused = status == Some(1) && said.starts_with("nacre: unsupported:");
        assert!(status == Some(INTERRUPTED) || is_refused, "{status:?}: {said}");
        assert_no_disk_is_left(folder.path());
    }
}

fn assert_no_disk_is_left(folder: &Path) {
    let path = folder.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(path), "{mounts}");
    // The kernel detaches a loop device after its last user has ended, in the background.
    eventually_blocking("no loop device is left", || {
        loop_files().iter().all(|file| !file.contains(path))
    });
    let left = entries(folder);
    assert!(left.is_empty(), "{left:?}");
}

/// Where disks cannot be slowed down, and on a machine that is too busy for any promise, the
/// command refuses to measure.
#[test]
fn slo_admit_reports_every_estimator_on_both_kinds_of_traces() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["slo-admit", "--seconds", "0.5", "--rounds", "1", "--json"];
    let ran = run(folder.path(), &arguments);
    let (told, said) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let refusals = ["\"kind\":\"unsupported\"", "\"kind\":\"exhausted\""];
    let is_refused = refusals.iter().any(|refusal| said.contains(refusal));
    assert!(ran.status.success() != is_refused, "{said}");
    for kind in ["balanced", "unbalanced"] {
        for estimator in ["per-target", "optimistic", "pessimistic"] {
            let figure = format!("\"{kind} traces, {estimator}: load of the busiest target\"");
            assert!(is_refused || told.contains(&figure), "{figure}: {told}");
        }
    }
    assert_no_disk_is_left(folder.path());
}

#[test]
fn a_commit_and_a_put_in_etcd_reach_all_watchers() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["watch", "--seconds", "0.05", "--rounds", "1", "--json"]);
    let (told, said) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
    for figure in ["p90", "worst"] {
        assert!(told.contains(&format!("a commit reaches 120 watchers, {figure}")), "{told}");
    }
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
    for (asked, because) in [
        ("malacology-updates --ceph-cluster script", "measured on nodes of its own"),
        ("malacology-modes --ceph-cluster script", "is not measured on CephFS"),
        ("mantle-7-creates --ceph-cluster script --seconds 1", "has neither --folder nor"),
        ("thesis-9-priority --on-nodes --redraw --out none", "no report is stored"),
        ("brados-5-random-reads --build build.json", "need a figure of balancing"),
        ("mantle-9-compile-speedup --build none.json", "none.json"),
    ] {
        let arguments: Vec<_> = ["experiment"].into_iter().chain(asked.split(' ')).collect();
        let refused = run(folder.path(), &arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && said.contains(because), "{asked}: {said}");
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
