//! Demonstrations of `nacre demo` on Ceph.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::NACRE;
use nacre_conformance::CephCluster;
use serde_json::Value;

/// The script that starts and stops the daemons.
fn script() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/ceph-cluster");
    script.to_str().unwrap().to_owned()
}

#[test]
fn writes_of_an_overloaded_osd_go_elsewhere_while_an_osd_and_the_gateway_are_killed() {
    let ceph = CephCluster::start(&["--osds", "3", "--store", "bluestore", "--size", "2"]);
    let output = Command::new(NACRE)
        .args(["demo", "--routes", "--quick", "--json", "--ceph-cluster", &script(), "--dev-ceph"])
        .arg(ceph.folder())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |field: &str| report[field].as_u64().unwrap();
    assert!(number("verified_reads") > 0 && number("acknowledged_writes") > 0, "{report}");
    assert!(number("routed_bytes") > 0, "{report}");
    let overloaded = report["overloaded"].as_str().unwrap();
    let killed = report["killed"].as_str().unwrap();
    assert!(overloaded.starts_with("osd.") && !killed.contains(overloaded), "{report}");
    assert!(killed.starts_with("osd.") && killed.ends_with(" and gateway.0"), "{report}");

    // The load without routing is more than the OSD serves: late in the burst all requests wait.
    let end = report["burst_seconds"][1].as_u64().unwrap() as usize;
    let late = &report["without_routing"][end - 1];
    assert!(late["seconds_p50"].as_f64() > Some(1.0), "{late}");
}
