//! Test vectors of placements. They must never change, because a cluster finds its stored objects
//! by computing their placement.
//!
//! `placements.py`, an independent implementation, computed `placements.txt`. Each line has the
//! targets as `name=weight,…`, a pool, an object name, and the object's target.

use std::io::Write;
use std::process::{Command, Stdio};

use nacre_object::{ObjectId, TargetName};
use nacre_placement::{Placement, Target};

#[test]
fn known_objects_are_placed_as_in_earlier_releases() {
    let lines: Vec<_> =
        include_str!("placements.txt").lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 500, "only {} lines", lines.len());
    for line in lines {
        let fields: Vec<_> = line.split('\t').collect();
        let [targets, pool, name, expected] = fields[..] else { panic!("{line:?}") };
        let targets = targets.split(',').map(|target| {
            let (name, weight) = target.split_once('=').expect("name=weight");
            Target { name: TargetName::new(name).unwrap(), weight: weight.parse().unwrap() }
        });
        let placement = Placement::new(targets.collect()).unwrap();
        let id = ObjectId::new(pool.parse().unwrap(), name.parse().unwrap());
        assert_eq!(placement.locate_object(&id.pool, &id.name).as_str(), expected, "{line}");
    }
}

const PAGE: &str = include_str!("../../../docs/placement.md");
/// Debian's Python, which has Debian's xxhash. `make install-test-deps` installs both.
const PYTHON: &str = "/usr/bin/python3";
/// A script that calls the Python program of the documentation. For each line of `placements.txt`
/// it prints the line that the program computes.
const ANSWER: &str = "
import sys
for line in sys.stdin.read().splitlines():
    shown, pool, name, _ = line.split('\t')
    targets = {t.split('=')[0]: float(t.split('=')[1]) for t in shown.split(',')}
    print(shown, pool, name, holder(targets, pool, name), sep='\t')
";

#[test]
fn the_program_of_the_documentation_finds_every_object() {
    let (_, program) = PAGE.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let vectors = include_str!("placements.txt");
    let vectors: String = vectors
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut python = Command::new(PYTHON)
        .args(["-c", &format!("{program}{ANSWER}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`make install-test-deps` installs it");
    let mut input = python.stdin.take().unwrap();
    let lines = vectors.clone();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "`make install-test-deps` installs what it needs");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), vectors);
}

#[test]
fn the_test_vectors_of_the_documentation_still_hold() {
    let targets = ["storage.0", "storage.1", "storage.2"].map(|name| name.parse().unwrap());
    let placement = Placement::new(targets.map(Target::new).into()).unwrap();
    let rows = PAGE.lines().filter(|line| line.contains("| `storage."));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<_> = row.split('`').collect();
        let [_, pool, _, name, _, holder, _] = cells[..] else { panic!("{row}") };
        let (pool, name) = (pool.parse().unwrap(), name.parse().unwrap());
        assert_eq!(placement.locate_object(&pool, &name).as_str(), holder, "{row}");
        seen += 1;
    }
    assert!(seen >= 5, "{seen} rows");
}
