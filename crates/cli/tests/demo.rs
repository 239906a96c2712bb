//! The main job, faults included, as `make demo` runs it.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::NACRE;
use serde_json::Value;

fn demo(arguments: &[&str], input: &str) -> (bool, String, String) {
    let mut child = Command::new(NACRE)
        .arg("demo")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_acknowledged_record_is_in_the_log_once_after_all_faults() {
    for interface in ["brados", "luau"] {
        let arguments = ["--records", "5000", "--interface", interface, "--json"];
        let (worked, printed, said) = demo(&arguments, "");
        assert!(worked, "{said}");
        let report: Value = serde_json::from_str(&printed).unwrap();
        let verdict = &report["verdict"];
        assert_eq!((&verdict["acknowledged"], &verdict["found"]), (&5000.into(), &5000.into()));
        assert_eq!(report["phases"].as_array().unwrap().len(), 4, "{report}");
        assert!(report["phases"].as_array().unwrap().iter().all(|phase| phase["records"] != 0));
    }
}

#[test]
fn balancing_spreads_three_logs_and_loses_nothing_when_a_node_is_killed() {
    let (worked, printed, said) = demo(&["--balance", "--json"], "");
    assert!(worked, "{said}");
    let report: Value = serde_json::from_str(&printed).unwrap();
    let logs = report["logs"].as_object().unwrap();
    assert_eq!(logs.len(), 3, "{report}");
    for (name, log) in logs {
        let verdict = &log["verdict"];
        assert_eq!(verdict["acknowledged"], verdict["found"], "{name}: {verdict}");
        assert!(verdict["found"].as_u64() > Some(0), "{name}: {verdict}");
    }
    let events = report["events"].to_string();
    for told in ["policy balancer/sequencers", "is killed", "on three nodes again"] {
        assert!(events.contains(told), "{told}: {events}");
    }
    let seconds = report["seconds"].as_array().unwrap();
    assert!(seconds.len() > 10, "{report}");
}

/// Whether the promises are kept depends on the other load of the machine, so the test does not
/// check it.
#[test]
fn two_tenants_are_promised_a_latency_a_third_is_refused_and_a_fourth_bursts() {
    let (_, printed, said) = demo(&["--slo", "--json"], "");
    let report: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{said}"));
    assert!(report["refusal"].as_str().unwrap().contains("greedy is refused"), "{report}");
    let phases = report["phases"].as_array().unwrap();
    let enforced: Vec<_> = phases.iter().map(|phase| &phase["is_enforced"]).collect();
    assert_eq!(enforced, [false, true]);
    for phase in phases {
        let tenants = phase["tenants"].as_array().unwrap();
        assert_eq!(tenants.len(), 2, "{report}");
        assert!(tenants.iter().all(|tenant| tenant["requests"].as_u64() > Some(0)), "{report}");
        assert!(phase["bulk_bytes_per_second"].as_f64() > Some(0.0), "{report}");
    }
}

#[test]
fn a_demo_runs_with_a_few_lines_from_a_pipe() {
    let (worked, printed, said) = demo(&["--input", "-"], "a\nb\na\n\nc\nd\ne\nf\n");
    assert!(worked, "{said}");
    let last = printed.lines().last().unwrap();
    assert!(last.starts_with("verified: 8 records acknowledged, 8 read back"), "{printed}");
    assert!(
        !said.contains('\r') && !said.contains(" records/s"),
        "progress goes to terminals: {said}"
    );
}

#[test]
fn a_terminal_shows_how_far_the_appends_are() {
    const ON_A_TERMINAL: &str = "import os, pty, sys\n\
        sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
    let shown = Command::new("/usr/bin/python3")
        .args(["-c", ON_A_TERMINAL, NACRE, "demo", "--records", "3000"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{text}");
    assert!(text.contains("\r\u{1b}[K") && text.contains(" of 3000 records, "), "{text}");
}

#[test]
fn an_unreadable_input_gives_a_plain_error() {
    let (worked, _, said) = demo(&["--input", "/nonexistent"], "");
    assert!(!worked);
    assert!(said.contains("cannot read /nonexistent"), "{said}");
    let (worked, _, said) = demo(&["--input", "-"], "");
    assert!(!worked);
    assert!(said.contains("has no records"), "{said}");
}
