//! Tests a gateway that cannot start, because its key was removed from the Ceph cluster.
//! `nacre status` gives the reason, and `nacre up` prints it only once. When the key is back, the
//! gateway serves again.

mod common;

use std::fs::{self, File};

use common::RunningCluster;
use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

const GATEWAY: &str = "gateway.0";
const CAPS: [&str; 6] = ["mon", "allow r", "osd", "allow *", "mgr", "allow r"];

fn status(cluster: &RunningCluster, arguments: &[&str]) -> (String, String) {
    let output = cluster.command(&[&["status"], arguments].concat()).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
    (out, err)
}

/// The supervisor's report on the gateway, after the given number of restarts.
fn kept(cluster: &RunningCluster, restarts: u64) -> Value {
    let mut line = Value::Null;
    eventually_blocking("the gateway was started that often", || {
        let (said, _) = status(cluster, &["--json"]);
        line = serde_json::from_str(said.lines().next().unwrap()).unwrap();
        let kept = &line["supervisor"];
        kept["restarts"].as_u64().unwrap() >= restarts && kept["state"] == "down"
    });
    assert_eq!(line["up"], false);
    line["supervisor"].clone()
}

#[test]
fn status_says_why_a_gateway_keeps_ending_and_when_it_starts_again() {
    let ceph = CephCluster::start(&["--osds", "1"]);
    let key = ceph.client("ceph", &[&["auth", "get-or-create", "client.x"], &CAPS[..]].concat());
    let folder = tempfile::tempdir().unwrap();
    let keyring = folder.path().join("keyring");
    fs::write(&keyring, &key).unwrap();
    let text = fs::read_to_string(ceph.conf()).unwrap();
    let ours = ceph.folder().join("keyring").display().to_string();
    let conf = folder.path().join("ceph.conf");
    fs::write(&conf, text.replace(&ours, &keyring.display().to_string())).unwrap();
    let engine = format!("ceph:{}?user=x", conf.display());

    let said = folder.path().join("said");
    let place = folder.path().join("cluster");
    let cluster = RunningCluster::start_told(
        &place,
        &["--engine", &engine],
        File::create(&said).unwrap().into(),
    );
    let (shown, _) = status(&cluster, &[]);
    assert!(!shown.contains("ended"), "{shown}");

    ceph.client("ceph", &["auth", "del", "client.x"]);
    cluster.kill_node(GATEWAY);
    let kept = kept(&cluster, 3);
    let reason = kept["last_end"]["reason"].as_str().unwrap();
    assert!(reason.contains("the monitors have no client.x"), "{reason}");
    let (ended, next) = (&kept["last_end"]["at_micros"], &kept["next_start_at_micros"]);
    assert!(next.as_u64().unwrap() > ended.as_u64().unwrap(), "{kept}");
    let (shown, error) = status(&cluster, &[]);
    assert!(shown.contains("\ngateway.0: ended at ") && shown.contains(reason), "{shown}");
    assert!(shown.contains("; started again ") && !shown.contains('{'), "{shown}");
    assert!(error.contains("`nacre up` runs") && !error.contains("start the cluster"), "{error}");
    let told = fs::read_to_string(&said).unwrap();
    let is_end = |line: &&str| line.starts_with("gateway.0 ended and is started again: ");
    let ends: Vec<_> = told.lines().filter(is_end).collect();
    // `nacre up` reports that the gateway was killed, and then the reason why it cannot start, only
    // once.
    assert!(ends.len() == 2 && ends[0].contains("SIGKILL") && ends[1].contains(reason), "{told}");

    let caps = CAPS.chunks(2).map(|cap| format!("\tcaps {} = \"{}\"\n", cap[0], cap[1]));
    let entry = folder.path().join("entry");
    fs::write(&entry, format!("{}\n{}", key.trim_end(), caps.collect::<String>())).unwrap();
    ceph.client("ceph", &["auth", "import", "-i", entry.to_str().unwrap()]);
    eventually_blocking("the node serves again", || {
        fs::read_to_string(&said).unwrap().contains("gateway.0 serves again")
    });
    assert!(cluster.run(&["status"]).contains("gateway.0: ended at "));
}
