//! Tests that gateways notice clients of Ceph that pass no gateway.

mod common;

use std::process::{Child, Command, Stdio};

use common::RunningCluster;
use nacre_conformance::wait::eventually_blocking;
use nacre_conformance::{CephCluster, ceph_plugin_folder};
use serde_json::{Value, json};

/// An ordinary client of RADOS that writes until this is dropped.
struct Writer(Child);

impl Writer {
    fn start(ceph: &CephCluster) -> Self {
        let bench = ["-p", "nacre", "bench", "600", "write", "-b", "4096", "-t", "4"];
        let mut rados = Command::new("rados");
        rados.arg("--conf").arg(ceph.conf()).args(bench);
        Self(rados.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Any operation takes a millisecond of the OSD.
fn load_profile(cluster: &RunningCluster) {
    let row = json!({ "bytes": 4096, "read_bytes_per_second": 4.096e6, "write_bytes_per_second": 4.096e6 });
    let limits = json!({ "requests": 16, "bytes": 1 << 20 });
    let profile = json!({
        "profile": { "rows": [row] }, "outstanding": { "reads": limits, "writes": limits },
        "fingerprint": "made up", "uncertainty": 0.0, "measured_at_micros": 0,
    });
    let file = cluster.folder().join("profiles.json");
    let profiles = json!([{ "target": "osd.0", "profile": profile }]);
    std::fs::write(&file, profiles.to_string()).unwrap();
    cluster.run(&["slo", "profile", "--load", file.to_str().unwrap()]);
}

/// What each gateway says of direct traffic, in operations a second; `None` where it is unknown.
fn direct(cluster: &RunningCluster) -> Vec<Option<f64>> {
    let status = cluster.json(&["slo", "status"]);
    let targets = status["targets"].as_array().cloned().unwrap_or_default();
    let of_osd = targets.into_iter().filter(|target| target["target"] == "osd.0");
    of_osd.map(|target: Value| target["direct"]["operations_per_second"].as_f64()).collect()
}

#[test]
fn gateways_notice_clients_that_bypass_them() {
    let class_dir = ceph_plugin_folder();
    let ceph = CephCluster::start(&["--osds", "1", "--class-dir", class_dir.to_str().unwrap()]);
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("ceph:{}", ceph.conf().display());
    let cluster = RunningCluster::start_with(folder.path(), &["--engine", &engine]);
    load_profile(&cluster);
    cluster.run_with_input(&["object", "put", "data/a", "-"], "kept");

    // Requests through the gateways are their own, however many.
    cluster.run(&["log", "create", "l"]);
    let lines = "a record\n".repeat(5_000);
    eventually_blocking("gateways know that there is no direct traffic", || {
        cluster.run_with_input(&["log", "append", "l", "-"], &lines);
        let direct = direct(&cluster);
        let known: Vec<_> = direct.iter().flatten().collect();
        assert!(known.iter().all(|operations| **operations == 0.0), "{direct:?}");
        !known.is_empty()
    });

    let writer = Writer::start(&ceph);
    eventually_blocking("a gateway notices the writer", || {
        direct(&cluster).into_iter().flatten().any(|operations| operations > 10.0)
    });
    let shown = cluster.run(&["slo", "status"]);
    assert!(shown.contains("clients that pass no gateway ask for"), "{shown}");
    // A request takes a millisecond, so the tenant alone would take four fifths of the OSD.
    let gold = ["gold", "--latency", "5s", "--rate", "800", "--size", "4096"];
    let gold = |verb| [&["slo", verb][..], &gold].concat();
    let mut said = String::new();
    eventually_blocking("the writer leaves no room for a tenant", || {
        let asked = cluster.command(&gold("whatif")).output().unwrap();
        said = String::from_utf8(asked.stderr).unwrap();
        !asked.status.success()
    });
    assert!(said.contains("without them the promise would fit"), "{said}");
    assert!(
        said.contains("clients that pass no gateway take")
            && said.contains("% of the time of osd.0 now"),
        "{said}"
    );
    drop(writer);
    eventually_blocking("gateways notice that the writer has ended", || {
        let direct = direct(&cluster);
        !direct.is_empty() && direct.iter().all(|operations| *operations == Some(0.0))
    });
    assert!(cluster.run(&gold("admit")).contains("admitted"));
}
