//! `nacre program test` on a Ceph cluster of real daemons.

use std::process::{Command, Output};

use nacre_conformance::{CephCluster, ceph_plugin_folder};

const NACRE: &str = env!("CARGO_BIN_EXE_nacre");
const ACCOUNT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/account.brados");

fn nacre(arguments: &[&str]) -> Output {
    Command::new(NACRE).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_script_runs_in_the_osds_and_leaves_nothing_behind() {
    let folder = ceph_plugin_folder();
    let ceph = CephCluster::start(&["--osds", "1", "--class-dir", folder.to_str().unwrap()]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let test = |more: &[&str]| {
        nacre(&[&["program", "test", ACCOUNT, "--engine", &engine][..], more].concat())
    };
    // The script also checks that messages are delivered.
    for layout in ["map", "header: attribute"] {
        let tested = test(&["--json", "--layout", layout]);
        assert!(tested.status.success(), "{}", text(&tested.stderr));
        let said: serde_json::Value = serde_json::from_slice(&tested.stdout).unwrap();
        assert_eq!(said["layouts"], 1, "{said}");
        let left = ceph.client("rados", &["-p", "nacre", "--all", "ls"]);
        assert!(!left.contains("test-"), "{left}");
    }
    let wrong = std::env::temp_dir().join(format!("nacre-wrong-{}.test", std::process::id()));
    std::fs::write(&wrong, "== a case\nbalance nil -> holds(1)\n").unwrap();
    let tested = test(&[wrong.to_str().unwrap(), "--layout", "map"]);
    std::fs::remove_file(&wrong).unwrap();
    assert_eq!(tested.status.code(), Some(1), "{}", text(&tested.stderr));
    assert!(text(&tested.stderr).contains("got "), "{}", text(&tested.stderr));
}
