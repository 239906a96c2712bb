//! Tests `nacre slo advise --apply` on Ceph: tenants move to other OSDs and back, while clients go
//! on.

mod common;

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{RunningCluster, finish};
use nacre_conformance::CephCluster;
use nacre_conformance::wait::eventually_blocking;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The RADOS pool of the tenant gold.
const RADOS_POOL: &str = "gold-pool";
/// Few, because the development cluster has three OSDs on one machine.
const GROUPS: &str = "8";
const TARGET: i64 = 2;

/// A tenant that fits only if gold leaves the two slow OSDs.
const WEB: [&str; 10] = [
    "web",
    "--latency",
    "200ms",
    "--rate",
    "850",
    "--size",
    "4096",
    "--few-objects",
    "--op",
    "write",
];

/// A Ceph cluster with two copies of each object, and a cluster of nacre on it.
struct Bed {
    // Dropped first: its nodes use the Ceph cluster.
    nacre: RunningCluster,
    ceph: CephCluster,
    _folder: tempfile::TempDir,
}

impl Bed {
    fn start() -> Self {
        let ceph = CephCluster::start(&["--osds", "3", "--size", "2"]);
        let folder = tempfile::tempdir().unwrap();
        let engine = format!("ceph:{}", ceph.conf().display());
        let nacre =
            RunningCluster::start_with(folder.path(), &["--engine", &engine, "--targets", "2"]);
        let bed = Self { nacre, ceph, _folder: folder };
        bed.load_profiles();
        bed
    }

    /// A request takes a millisecond of the OSDs 0 and 1, and a quarter of that of OSD 2.
    fn load_profiles(&self) {
        let profile = |osd: i64| {
            let bandwidth = if osd == TARGET { 4.0 * 4.096e6 } else { 4.096e6 };
            let row = json!({
                "bytes": 4096, "read_bytes_per_second": bandwidth, "write_bytes_per_second": bandwidth,
            });
            let limits = json!({ "requests": 16, "bytes": 1 << 20 });
            json!({ "target": format!("osd.{osd}"), "profile": {
                "profile": { "rows": [row] }, "outstanding": { "reads": limits, "writes": limits },
                "fingerprint": "made up", "uncertainty": 0.0, "measured_at_micros": 0,
            } })
        };
        let file = self.nacre.folder().join("profiles.json");
        std::fs::write(&file, json!([0, 1, 2].map(profile)).to_string()).unwrap();
        self.nacre.run(&["slo", "profile", "--load", file.to_str().unwrap()]);
    }

    fn make_rados_pool(&self) {
        self.ceph.client("ceph", &["osd", "pool", "create", RADOS_POOL, GROUPS, GROUPS]);
        self.ceph.client("ceph", &["osd", "pool", "application", "enable", RADOS_POOL, "nacre"]);
    }

    /// Makes the pool `orders` of the tenant gold in a RADOS pool of its own, with some objects, and
    /// promises gold a latency.
    fn make_gold(&self) {
        self.make_rados_pool();
        self.nacre.run(&["pool", "create", "orders", "--rados-pool", RADOS_POOL]);
        self.nacre.run(&["slo", "pool", "orders", "gold"]);
        for number in 0..8 {
            self.nacre.run_with_input(&["object", "put", &format!("orders/{number}"), "-"], "kept");
        }
        let gold =
            ["slo", "admit", "gold", "--latency", "200ms", "--rate", "600", "--size", "4096"];
        self.nacre.run(&gold);
    }

    fn ceph_json(&self, arguments: &[&str]) -> Value {
        let printed = self.ceph.client("ceph", &[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"))
    }

    /// The OSDs of each placement group of the RADOS pool, the primary first, once no other OSDs
    /// serve it in their place.
    fn placement(&self) -> Vec<Vec<i64>> {
        let dump = self.ceph_json(&["osd", "dump"]);
        let pools = dump["pools"].as_array().unwrap();
        let pool = pools.iter().find(|pool| pool["pool_name"] == RADOS_POOL).unwrap();
        let group = |number| {
            let group = format!("{}.{number:x}", pool["pool"]);
            let mut map = Value::Null;
            eventually_blocking("the OSDs of a group have all of its objects", || {
                map = self.ceph_json(&["pg", "map", &group]);
                map["up"] == map["acting"]
            });
            map["up"].as_array().unwrap().iter().map(|osd| osd.as_i64().unwrap()).collect()
        };
        (0..pool["pg_num"].as_u64().unwrap()).map(group).collect()
    }

    fn has_overrides(&self) -> bool {
        let dump = self.ceph_json(&["osd", "dump"]);
        ["pg_upmap", "pg_upmap_items"].iter().any(|kind| dump[*kind] != json!([]))
    }

    /// The record of gold's move, if there is one.
    fn record(&self) -> Option<Value> {
        let slo = self.nacre.json(&["map", "get", "slo"]);
        let record = slo["entries"]["placement/gold"].as_str()?;
        Some(serde_json::from_str(record).unwrap())
    }

    /// The targets for which gold has a promise.
    fn promised_targets(&self) -> Vec<String> {
        let listed = self.nacre.run(&["slo", "ls", "--json"]);
        let promises = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let gold = promises.into_iter().find(|promise| promise["tenant"] == "gold").unwrap();
        let flows = gold["promise"]["flows"].as_array().unwrap();
        flows.iter().map(|flow| flow["target"].as_str().unwrap().to_owned()).collect()
    }

    fn check_objects(&self) {
        for number in 0..8 {
            let object = format!("orders/{number}");
            assert_eq!(self.nacre.run(&["object", "get", &object]), "kept");
        }
    }
}

#[test]
fn a_tenant_moves_to_another_osd_and_back_while_clients_write() {
    let bed = Bed::start();
    bed.make_gold();
    let before = bed.placement();
    assert!(before.iter().any(|osds| osds[0] != TARGET), "{before:?}");
    let whatif = [&["slo", "whatif"], &WEB[..]].concat();
    let (status, said) = bed.nacre.fails(&whatif);
    assert!(status == 1 && said.contains("web is refused"), "{said}");

    let advise = [&["slo", "advise", "--for"], &WEB[..]].concat();
    let advice = bed.nacre.json(&advise);
    assert_eq!(
        (&advice["moves"][0]["tenant"], &advice["moves"][0]["to"]),
        (&json!("gold"), &json!("osd.2"))
    );
    assert_eq!((advice["is_applied"].as_bool(), bed.record()), (Some(false), None));

    let is_over = AtomicBool::new(false);
    let acknowledged = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut acknowledged = 0;
            while !is_over.load(Ordering::Relaxed) {
                bed.nacre.run_with_input(&["object", "append", "orders/lines", "-"], "line\n");
                acknowledged += 1;
            }
            acknowledged
        });
        let applied = bed.nacre.command(&[&advise[..], &["--apply", "--json"]].concat()).output();
        is_over.store(true, Ordering::Relaxed);
        let applied = applied.unwrap();
        assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        let applied: Value = serde_json::from_slice(&applied.stdout).unwrap();
        assert_eq!(applied["is_applied"], true, "{applied}");
        writer.join().unwrap()
    });
    let lines = bed.nacre.run(&["object", "get", "orders/lines"]);
    assert_eq!(lines.lines().count(), acknowledged, "no line is lost or doubled");

    let moved = bed.placement();
    assert!(moved.iter().all(|osds| osds.len() == 2 && osds[0] == TARGET), "{moved:?}");
    assert!(moved.iter().all(|osds| osds[1] != TARGET), "two copies: {moved:?}");
    let is_wanted = |osds: &Vec<i64>| osds[0] == TARGET;
    assert_eq!(moved.iter().filter(|osds| is_wanted(osds)).count(), before.len());
    assert_eq!(bed.promised_targets(), ["osd.2"]);
    assert_eq!(bed.record().unwrap()["is_complete"], true);
    bed.check_objects();
    let promised = bed.nacre.json(&[&["slo", "admit"], &WEB[..]].concat());
    assert_eq!(promised["admitted"], true);
    let events = bed.nacre.run(&["events"]);
    assert!(events.contains("osd.2 serves all 8 placement groups of gold"), "{events}");

    // Web has got the room that gold has left.
    let (_, said) = bed.nacre.fails(&["slo", "advise", "--undo", "gold"]);
    assert!(said.contains("is refused"), "{said}");
    assert_eq!((bed.promised_targets().len(), bed.has_overrides()), (1, true));
    bed.nacre.run(&["slo", "evict", "web"]);
    bed.nacre.run(&["slo", "advise", "--undo", "gold"]);
    assert_eq!((bed.placement(), bed.has_overrides()), (before, false));
    assert_eq!(bed.promised_targets(), ["osd.0", "osd.1", "osd.2"]);
    assert_eq!(bed.record(), None);
    bed.check_objects();
    let (_, said) = bed.nacre.fails(&["slo", "advise", "--undo", "gold"]);
    assert!(said.contains("was not moved"), "{said}");
}

#[test]
fn a_move_that_is_interrupted_or_impossible_is_taken_back() {
    let bed = Bed::start();
    bed.make_gold();
    bed.nacre.run(&["slo", "enforce", "on"]);
    let before = bed.placement();
    let advise = [&["slo", "advise", "--for"], &WEB[..], &["--apply"]].concat();
    let mut applying = bed.nacre.command(&[&advise[..], &["--watch", "3"]].concat());
    let applying = applying.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually_blocking("the promise is made for the new target", || {
        bed.record().is_some_and(|record| record["is_complete"] == true)
    });
    kill_process(Pid::from_raw(i32::try_from(applying.id()).unwrap()).unwrap(), Signal::INT)
        .unwrap();
    let ended = finish(applying, "the interrupted command");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(said.contains("what was done is taken back"), "{said}");
    let is_as_before = || {
        assert_eq!((bed.has_overrides(), bed.record()), (false, None));
        assert_eq!(bed.promised_targets(), ["osd.0", "osd.1", "osd.2"]);
        eventually_blocking("CRUSH places the pool again", || bed.placement() == before);
        bed.check_objects();
    };
    is_as_before();

    // The pool's rule admits only the other OSDs, so the monitors drop the overrides.
    for osd in ["osd.0", "osd.1"] {
        bed.ceph.client("ceph", &["osd", "crush", "rm-device-class", osd]);
        bed.ceph.client("ceph", &["osd", "crush", "set-device-class", "slow", osd]);
    }
    let rule = ["osd", "crush", "rule", "create-replicated", "slow", "default", "osd", "slow"];
    bed.ceph.client("ceph", &rule);
    bed.ceph.client("ceph", &["osd", "pool", "set", RADOS_POOL, "crush_rule", "slow"]);
    eventually_blocking("the rule is in force", || {
        bed.placement().iter().flatten().all(|osd| *osd != TARGET)
    });
    let (status, said) = bed.nacre.fails(&[&advise[..], &["--watch", "0.1"]].concat());
    assert!(status == 1 && said.contains("did not get osd.2 as their primary"), "{said}");
    assert!(said.contains("crush_rule"), "{said}");
    assert_eq!((bed.has_overrides(), bed.record()), (false, None));
    assert_eq!(bed.promised_targets(), ["osd.0", "osd.1", "osd.2"]);
    bed.check_objects();
}

#[test]
fn only_a_pool_in_a_rados_pool_of_its_own_can_be_moved() {
    let bed = Bed::start();
    let (status, said) = bed.nacre.fails(&["pool", "create", "orders", "--rados-pool", RADOS_POOL]);
    assert!(status == 1 && said.contains("ceph osd pool create gold-pool"), "{said}");
    bed.nacre.run(&["slo", "pool", "data", "gold"]);
    let advise = [
        "slo",
        "advise",
        "--for",
        "gold",
        "--latency",
        "200ms",
        "--rate",
        "2400",
        "--size",
        "4096",
    ];
    let gold_and_silver =
        ["slo", "admit", "silver", "--latency", "200ms", "--rate", "700", "--size", "4096"];
    bed.nacre.run(&[&gold_and_silver[..], &["--few-objects"]].concat());
    let advice = bed.nacre.json(&advise);
    assert!(advice["unsupported"].as_str().unwrap().contains("that all pools share"), "{advice}");
    assert!(
        advice["commands"][2].as_str().unwrap().contains("--rados-pool nacre-gold"),
        "{advice}"
    );
    let (status, said) = bed.nacre.fails(&[&advise[..], &["--apply"]].concat());
    assert!(status == 1 && said.contains("gold cannot be moved"), "{said}");

    bed.make_rados_pool();
    bed.nacre.run(&["pool", "create", "orders", "--rados-pool", RADOS_POOL]);
    bed.nacre.run(&["pool", "create", "orders", "--rados-pool", RADOS_POOL]);
    assert!(bed.nacre.run(&["pool", "ls"]).contains("orders in the RADOS pool gold-pool"));
    let (_, said) = bed.nacre.fails(&["pool", "create", "data", "--rados-pool", RADOS_POOL]);
    assert!(said.contains("the pool exists in the RADOS pool nacre"), "{said}");
    bed.nacre.run_with_input(&["object", "put", "orders/a", "-"], "in its own pool");
    let listed = |rados_pool| bed.ceph.client("rados", &["-p", rados_pool, "-N", "orders", "ls"]);
    assert_eq!((listed(RADOS_POOL).trim(), listed("nacre").trim()), ("a", ""));

    // A removed pool loses its RADOS pool: a pool that is made later is in the common one.
    bed.nacre.run(&["object", "rm", "orders/a"]);
    bed.nacre.run(&["pool", "rm", "orders"]);
    bed.nacre.run(&["pool", "create", "orders"]);
    bed.nacre.run_with_input(&["object", "put", "orders/b", "-"], "in the common pool");
    assert_eq!((listed(RADOS_POOL).trim(), listed("nacre").trim()), ("", "b"));
}
