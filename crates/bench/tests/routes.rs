//! The benches of routes run to their end on a cluster of processes, and report what they measured.
//! The tests say nothing about how good the figures are.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const NACRE_BENCH: &str = env!("CARGO_BIN_EXE_nacre-bench");

/// Runs a bench briefly, and returns its figures.
fn figures(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let run = Command::new(NACRE_BENCH)
        .args(["--json", "--rounds", "1", "--seconds", "1"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    let figures: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for figure in &figures {
        let [ours, baseline] = ["ours", "baseline"].map(|name| figure[name].as_f64().unwrap());
        assert!(ours > 0.0 && baseline > 0.0, "{figure}");
    }
    let left = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 0, "the bench leaves files behind");
    figures
}

fn names(figures: &[Value]) -> Vec<&str> {
    figures.iter().filter_map(|figure| figure["figure"].as_str()).collect()
}

#[test]
fn a_burst_is_played_with_and_without_routing_and_every_read_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let figures = figures(folder.path(), &["route-tail", "--only", "gradual burst, all"]);
    let expected = [
        "p50 of the overloaded target's volume, gradual burst, all targets limited",
        "p99 of the overloaded target's volume, gradual burst, all targets limited",
        "p99.9 of the overloaded target's volume, gradual burst, all targets limited",
        "p99 of the other volumes, gradual burst, all targets limited",
    ];
    assert_eq!(names(&figures), expected);
}

#[test]
fn the_bytes_of_a_change_of_rules_and_of_statistics_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let figures = figures(folder.path(), &["route-update"]);
    let [update, statistics] = &names(&figures)[..] else { panic!("{figures:?}") };
    assert!(update.starts_with("a change of the rules of"), "{update}");
    assert!(statistics.starts_with("statistics of"), "{statistics}");
}
