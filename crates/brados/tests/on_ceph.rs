//! Runs generated classes in Ceph's own `cls_lua` in a real OSD. The client that calls them does
//! not use nacre. The cases are those of `behaviour.rs`, in several layouts.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use nacre_brados::{Expected, Script, Step, compile};
use nacre_calls::{decode_reply, encode_request};
use nacre_conformance::CephCluster;
use serde_json::{Value, json};

use support::{bytes, hexadecimal, in_layouts};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/plain_client.py");
const FILES: [&str; 3] = [
    include_str!("behaviour/tables.txt"),
    include_str!("behaviour/rules.txt"),
    include_str!("behaviour/channels.txt"),
];
/// Layouts of each program that are tried.
const MAX_LAYOUTS: usize = 6;

/// Requests on an object of its own.
struct Case {
    source: String,
    steps: Vec<Step>,
}

fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for (name, program, script) in FILES.into_iter().flat_map(support::cases) {
        let script = Script::parse(&format!("== {name}\n{script}")).unwrap();
        let steps: Vec<_> = script.cases.into_iter().flat_map(|case| case.steps).collect();
        for source in in_layouts(&program, MAX_LAYOUTS) {
            cases.push(Case { source, steps: steps.clone() });
        }
    }
    cases
}

fn as_json((number, case): (usize, &Case)) -> Value {
    let script = compile(&case.source).unwrap().class.lua;
    let call = |step: &Step| json!([step.method, hexadecimal(&encode_request(&step.row))]);
    let calls: Vec<_> = case.steps.iter().map(call).collect();
    json!({ "object": format!("o{number}"), "script": script, "calls": calls })
}

/// Status and output of each call.
fn outcomes(ceph: &CephCluster, cases: &[Case]) -> Vec<(i32, Vec<u8>)> {
    let mut client = Command::new("/usr/bin/python3")
        .args([CLIENT, ceph.conf().to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let input = Value::Array(cases.iter().enumerate().map(as_json).collect());
    client.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success());
    let line = |line: &str| {
        let (status, digits) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
        (status.parse().unwrap(), bytes(digits))
    };
    String::from_utf8(output.stdout).unwrap().lines().map(line).collect()
}

/// Compares the result of a call with the expected result. Returns whether they agree, and whether
/// the client could see the output. `cls_lua` returns the length of the output as the status of a
/// call.
fn agrees(expected: &Expected, (status, output): &(i32, Vec<u8>)) -> (bool, bool) {
    let wanted = match expected {
        Expected::Reply(outputs) if output.is_empty() => {
            return (*status >= 0, outputs.is_empty());
        }
        Expected::Reply(outputs) => {
            return (*status >= 0 && decode_reply(output).as_ref() == Ok(outputs), true);
        }
        Expected::Failure(kind) => match kind.as_str() {
            "invalid" => -22,
            "conflict" => -125,
            _ => -5,
        },
    };
    (*status == wanted, true)
}

#[test]
fn generated_classes_run_in_stock_cls_lua_in_several_layouts() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let cases = cases();
    let outcomes = outcomes(&ceph, &cases);
    let steps = cases.iter().flat_map(|case| case.steps.iter().map(move |step| (case, step)));
    let (mut count, mut seen) = (0, 0);
    for ((case, step), outcome) in steps.zip(&outcomes) {
        let (agrees, is_seen) = agrees(&step.expected, outcome);
        assert!(agrees, "{}\n  {}\n  but {outcome:?}", case.source, step.text);
        count += 1;
        seen += usize::from(is_seen);
    }
    assert_eq!(count, outcomes.len());
    println!("{count} calls of {} cases; the outcome of {seen} was seen whole", cases.len());
    assert!(count > 300 && seen * 3 > count, "{count} calls, {seen} seen");
}
