//! Tests a cluster whose data is in Ceph: real daemons, OSDs on files, two copies of everything.

mod common;

use std::process::Command;

use nacre_conformance::CephCluster;

use common::{NACRE, RunningCluster};

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|n| format!("record {n}\n")).collect()
}

#[test]
fn objects_classes_and_a_log_on_ceph_survive_the_loss_of_a_node_an_osd_and_the_folder() {
    let ceph = CephCluster::start(&["--osds", "3", "--store", "bluestore", "--size", "2"]);
    let engine = format!("ceph:{}", ceph.conf().display());
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let three = ["--engine", &engine, "--targets", "3"];
    let mut cluster = RunningCluster::start_with(folders[0].path(), &three);

    cluster.run_with_input(&["object", "put", "data/greeting"], "hello");
    // More than a request carries: Ceph takes it part by part.
    let large = "0123456789".repeat(2_000_000);
    cluster.run_with_input(&["object", "put", "data/large"], &large);
    let source = folders[0].path().join("counter.lua");
    std::fs::write(&source, COUNTER).unwrap();
    let source = source.to_str().unwrap();
    cluster.run(&["program", "put", "class/counter", source, "--activate"]);
    let call = ["class", "call", "data/visits", "counter", "add", "--input"];
    let add = |cluster: &RunningCluster, n| cluster.run(&[&call[..], &[n]].concat());
    assert_eq!(add(&cluster, "5").trim(), "5");
    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], &lines(0..100));

    for gateway in ["gateway.0", "gateway.1", "gateway.2"] {
        cluster.kill_node(gateway);
        assert_eq!(cluster.run(&["object", "get", "data/greeting"]), "hello");
    }
    cluster.run_with_input(&["log", "append", "l"], &lines(100..200));
    ceph.kill("osd.1");
    cluster.run_with_input(&["log", "append", "l"], &lines(200..300));
    ceph.restart("osd.1");
    assert_eq!(add(&cluster, "2").trim(), "7");
    assert!(cluster.stop());

    // Another folder, one other node: everything is in Ceph.
    let cluster = RunningCluster::start_with(folders[1].path(), &["--engine", &engine]);
    assert_eq!(cluster.run(&["object", "get", "data/greeting"]), "hello");
    assert!(cluster.run(&["object", "get", "data/large"]) == large);
    assert_eq!(add(&cluster, "3").trim(), "10");
    assert_eq!(cluster.run(&["log", "read", "l"]), lines(0..300));
}

#[test]
fn a_missing_or_wrong_engine_gives_a_plain_error() {
    let scratch = tempfile::tempdir().unwrap();
    let told = |command: &[&str], folder: &str, engine: &str| {
        let output = Command::new(NACRE)
            .args(command)
            .args(["--engine", engine, "--cluster", folder])
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code(), said)
    };
    let (status, said) = told(&["up"], "a", "ceph:absent.conf");
    assert!(status == Some(2) && said.contains("absent.conf cannot be read"), "{said}");
    // Nothing remembers a name that was mistyped.
    assert!(!scratch.path().join("a").exists());
    let init = ["init", "--listen", "127.0.0.2:0"];
    let (status, said) = told(&init, "a", "ceph:absent.conf");
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = told(&["up"], "a", "ceph:other.conf");
    assert!(status == Some(2) && said.contains("keeps its data in"), "{said}");
    let (status, said) = told(&["up"], "b", "redis");
    assert!(status == Some(2) && said.contains("ceph:/path/ceph.conf"), "{said}");
}
