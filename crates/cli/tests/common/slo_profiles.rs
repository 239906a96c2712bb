//! Profiles of targets that are not measured, so that no test depends on the speed of this machine.

use serde_json::{Value, json};

use super::RunningCluster;

/// Gives the cluster a profile of targets that move a gigabyte a second.
pub fn load_fast_profile(cluster: &RunningCluster, targets: &[&str]) {
    load_profile(cluster, targets, 16);
}

/// As [`load_fast_profile`], with a limit on the concurrent requests of each kind at a target.
pub fn load_profile(cluster: &RunningCluster, targets: &[&str], requests: usize) {
    let row = json!({ "bytes": 4096, "read_bytes_per_second": 1e9, "write_bytes_per_second": 1e9 });
    let limits = json!({ "requests": requests, "bytes": 1 << 20 });
    let profile = json!({
        "profile": { "rows": [row] }, "outstanding": { "reads": limits, "writes": limits },
        "fingerprint": "made up", "uncertainty": 0.0, "measured_at_micros": 0,
    });
    let profiles: Vec<_> =
        targets.iter().map(|target| json!({ "target": target, "profile": profile })).collect();
    let file = cluster.folder().join("profiles.json");
    std::fs::write(&file, Value::from(profiles).to_string()).unwrap();
    let loaded = cluster.json(&["slo", "profile", "--load", file.to_str().unwrap()]);
    assert_eq!(loaded[0]["profile"], profile);
}
