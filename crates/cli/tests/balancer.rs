//! Balancing the sequencers of a real cluster: by hand, and by a policy.

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::RunningCluster;
use common::appenders::Appenders;
use common::metrics_page::counter;
use nacre::{Cluster, Log, LogOptions};
use nacre_conformance::wait::{eventually, eventually_blocking};
use serde_json::Value;

const NODES: [&str; 3] = ["meta.0", "meta.1", "meta.2"];
const LOGS: [&str; 3] = ["orders", "payments", "clicks"];
const SEQUENCERS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/balancer/sequencers.lua");

/// A cluster with several nodes that host sequencers.
struct Balanced {
    cluster: RunningCluster,
    _folder: tempfile::TempDir,
}

impl Balanced {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--targets", "1", "--metadata", "3"];
        let cluster = RunningCluster::start_with(folder.path(), &arguments);
        Self { cluster, _folder: folder }
    }

    async fn client(&self) -> Cluster {
        Cluster::connect(self.cluster.folder()).await.unwrap()
    }

    /// Makes logs whose sequencers all sit on the first node.
    async fn logs(&self, client: &Cluster) -> Vec<Log> {
        let mut logs = vec![];
        for name in LOGS {
            let log = client.create_log(name, LogOptions::default()).await.unwrap();
            log.append("the first record").await.unwrap();
            self.cluster.run(&["log", "move", name, NODES[0]]);
            logs.push(log);
        }
        logs
    }

    fn sequencer_of(&self, log: &str) -> String {
        let stat = self.cluster.json(&["log", "stat", log]);
        stat["sequencer"].as_str().unwrap_or_default().to_owned()
    }

    fn put(&self, name: &str, source: &str) {
        let path = self.cluster.folder().join("policy.lua");
        fs::write(&path, source).unwrap();
        let program = format!("balancer/{name}");
        self.cluster.run(&["program", "put", &program, path.to_str().unwrap(), "--activate"]);
        self.cluster.run(&["balancer", "set", name, "--tick", "0.5"]);
    }

    /// What a node decided last.
    fn last(&self, node: &str) -> Value {
        let status = self.cluster.json(&["balancer", "status"]);
        let nodes = status["nodes"].as_array().unwrap().clone();
        nodes.into_iter().find(|own| own["node"] == node).unwrap()["last"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_moves_a_sequencer_only_to_nodes_that_host_sequencers() {
    let balanced = Balanced::start();
    let client = balanced.client().await;
    let log = client.create_log("orders", LogOptions::default()).await.unwrap();
    let appenders = Appenders::start(&log, "r");
    for node in NODES.into_iter().cycle().take(7) {
        appenders.more().await;
        balanced.cluster.run(&["log", "move", "orders", node]);
        assert_eq!(balanced.sequencer_of("orders"), node);
    }
    appenders.more().await;
    let told = appenders.end().await;
    common::appenders::check(&log, &told).await;
    let (status, said) = balanced.cluster.fails(&["log", "move", "orders", "storage.0"]);
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("node storage.0 hosts no sequencers"), "{said}");
    assert!(said.contains("name one of meta.0, meta.1, meta.2"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_spreads_busy_sequencers_and_the_history_says_why() {
    let balanced = Balanced::start();
    let client = balanced.client().await;
    let logs = balanced.logs(&client).await;
    let appenders: Vec<_> = logs.iter().map(|log| Appenders::start(log, "r")).collect();
    let source = fs::read_to_string(SEQUENCERS).unwrap();
    balanced.put("sequencers", &source);
    eventually("each node has a sequencer", async || {
        let nodes: BTreeSet<_> = LOGS.iter().map(|log| balanced.sequencer_of(log)).collect();
        nodes.len() == LOGS.len()
    })
    .await;
    for (log, appenders) in logs.iter().zip(appenders) {
        appenders.more().await;
        common::appenders::check(log, &appenders.end().await).await;
    }
    let history = balanced.cluster.run(&["balancer", "history", NODES[0]]);
    assert!(history.contains(" to meta.1 in ") && history.contains(" ms"), "{history}");
    let kept = balanced.cluster.run(&["balancer", "history", NODES[0], "--json"]);
    let records = kept.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let moved = records
        .map(|line| line["record"].clone())
        .find(|record| {
            record["decision"]["moves"].as_array().is_some_and(|moves| !moves.is_empty())
        })
        .expect("a decision that moved something is kept");
    assert_eq!(moved["inputs"]["ranks"].as_array().unwrap().len(), 3, "{moved}");
    let load = moved["decision"]["moves"][0]["load"].as_f64();
    assert!(load.is_some_and(|load| load > 0.0), "{moved}");
    assert!(moved["outcomes"][0]["failure"].is_null(), "{moved}");
    balanced.cluster.run(&["balancer", "off"]);
    assert!(balanced.cluster.run(&["balancer", "status"]).starts_with("off: "));
}

#[test]
fn a_policy_that_fails_moves_nothing_and_is_reported_once() {
    let balanced = Balanced::start();
    // The check before activation uses made-up ranks, so the policy passes it.
    balanced.put(
        "broken",
        "function when()\n  return not MDSs[whoami].node:find('meta') or nothing.there\nend\n",
    );
    for node in NODES {
        eventually_blocking("the failure is kept", || {
            let failure = balanced.last(node)["failure"].to_string();
            failure.contains("nil")
        });
    }
    let after = balanced.last(NODES[0])["tick"].as_u64().unwrap() + 3;
    eventually_blocking("some more ticks fail", || {
        balanced.last(NODES[0])["tick"].as_u64().unwrap() >= after
    });
    let events = balanced.cluster.run(&["events"]);
    let reported = |node: &str| {
        let is_it =
            |line: &&str| line.contains("the balancer moves nothing") && line.contains(node);
        events.lines().filter(is_it).count()
    };
    for node in NODES {
        assert_eq!(reported(node), 1, "{events}");
    }
    assert!(events.contains("balancer/broken"), "{events}");
}

#[test]
fn a_policy_moves_a_busy_resource() {
    let balanced = Balanced::start();
    let ids = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/filetype/ids.lua");
    balanced.cluster.run(&["program", "put", "filetype/ids", ids, "--activate"]);
    balanced.cluster.run(&["resource", "create", "/ids/orders", "--type", "ids"]);
    let next = || balanced.cluster.run(&["resource", "call", "/ids/orders", "next"]);
    assert_eq!(next(), "1\n");
    balanced.cluster.run(&["resource", "move", "/ids/orders", NODES[0]]);
    balanced.put(
        "to_the_second",
        "metaload = 'IRD + IWR'\n\
         function when() return whoami == 1 and authmetaload > 1 end\n\
         function where() targets[2] = authmetaload end\n",
    );
    let mut last = 1;
    eventually_blocking("the resource is on the second node", || {
        last += 1;
        assert_eq!(next(), format!("{last}\n"), "each number once");
        balanced.cluster.run(&["resource", "locate", "/ids/orders"]) == format!("{}\n", NODES[1])
    });
    assert_eq!(next(), format!("{}\n", last + 1));
    let history = balanced.cluster.run(&["balancer", "history", NODES[0]]);
    assert!(history.contains("/ids/orders to meta.1 in "), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_moves_busy_sequencers_only_to_labelled_nodes() {
    let balanced = Balanced::start();
    let client = balanced.client().await;
    let logs = balanced.logs(&client).await;
    let set = |arguments: &[&str]| balanced.cluster.json(&[&["node", "set"], arguments].concat());
    set(&[NODES[2], "--label", "sequencers", "--label", "rack=r1", "--capacity", "4"]);
    let said = set(&[NODES[2], "--unlabel", "rack"]);
    assert_eq!(said["labels"], serde_json::json!({ "sequencers": "yes" }), "{said}");
    assert_eq!(said["capacity"], 4.0, "{said}");
    let appenders: Vec<_> = logs.iter().map(|log| Appenders::start(log, "r")).collect();
    balanced.put("sequencers", &fs::read_to_string(SEQUENCERS).unwrap());
    eventually("two sequencers are on the labelled node", async || {
        let nodes = LOGS.map(|log| balanced.sequencer_of(log));
        assert!(nodes.iter().all(|node| node != NODES[1]), "{nodes:?}");
        nodes.iter().filter(|node| *node == NODES[2]).count() >= 2
    })
    .await;
    for (log, appenders) in logs.iter().zip(appenders) {
        common::appenders::check(log, &appenders.end().await).await;
    }
    let rank = &balanced.last(NODES[0])["inputs"]["ranks"][2];
    assert_eq!((&rank["labels"]["sequencers"], &rank["capacity"]), (&"yes".into(), &4.0.into()));
    balanced.cluster.kill_node(NODES[2]);
    eventually_blocking("the node that was started again still has its label", || {
        let status = balanced.cluster.run(&["status"]);
        status.contains("meta.2: label sequencers=yes, capacity 4")
    });
}

/// Moves all units of the first rank to the second, in proxy mode.
const PROXY: &str = "mode = 'proxy'\n\
    metaload = 'IRD + IWR'\n\
    function when() return whoami == 1 and authmetaload > 1 end\n\
    function where() targets[2] = authmetaload end\n\
    howmuch = { function(units) local all = {} for at in ipairs(units) do all[at] = at end return all end }\n";

#[tokio::test(flavor = "multi_thread")]
async fn in_proxy_mode_the_former_node_forwards_requests_of_its_clients() {
    let balanced = Balanced::start();
    let client = balanced.client().await;
    let log = client.create_log("orders", LogOptions::default()).await.unwrap();
    log.append("the first record").await.unwrap();
    balanced.cluster.run(&["log", "move", "orders", NODES[0]]);
    let appenders = Appenders::start(&log, "r");
    let forwards = || counter(&balanced.cluster, NODES[0], "nacre_sequencer_forwards_total");
    // Begin to count the forwarded requests before the move. On a busy machine a forwarded request
    // can time out, and its client then goes directly to the second node. So the first node may
    // forward only a few requests, right after the move.
    let before = forwards();
    balanced.put("proxy", PROXY);
    eventually("the sequencer is on the second node", async || {
        balanced.sequencer_of("orders") == NODES[1]
    })
    .await;
    balanced.cluster.run(&["balancer", "off"]);
    eventually("the first node passes questions on", async || forwards() > before).await;
    appenders.more().await;
    // Kill the node that serves the sequencer. Clients then find its new node in the log's view.
    balanced.cluster.kill_node(NODES[1]);
    appenders.more().await;
    common::appenders::check(&log, &appenders.end().await).await;
    let history = balanced.cluster.run(&["balancer", "history", NODES[0], "--json"]);
    assert!(history.contains(r#""mode":"proxy""#), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_a_sequencer_moved_by_hand_in_proxy_mode_stay_with_the_former_node() {
    let balanced = Balanced::start();
    let client = balanced.client().await;
    let log = client.create_log("orders", LogOptions::default()).await.unwrap();
    log.append("the first record").await.unwrap();
    balanced.cluster.run(&["log", "move", "orders", NODES[0]]);
    log.append("the second record").await.unwrap();
    balanced.cluster.run(&["log", "move", "orders", NODES[1], "--proxy"]);
    log.take_positions(1).await.unwrap();
    log.take_positions(1).await.unwrap();
    let forwards = counter(&balanced.cluster, NODES[0], "nacre_sequencer_forwards_total");
    assert_eq!((balanced.sequencer_of("orders").as_str(), forwards), (NODES[1], 2.0));
}

#[test]
fn the_costs_of_a_cluster_are_measured_and_used_in_a_simulation() {
    let balanced = Balanced::start();
    let path = balanced.cluster.folder().join("model.json");
    let model = path.to_str().unwrap();
    let profile =
        balanced.cluster.json(&["balancer", "profile", "--seconds", "0.5", "--out", model]);
    for parameter in
        ["service_seconds", "forward_seconds", "migration_seconds", "session_flush_seconds"]
    {
        let seconds = profile["costs"][parameter].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds < 1.0, "{profile}");
    }
    assert!(profile["forwards"].as_u64().unwrap() > 0, "{profile}");
    assert_eq!(balanced.cluster.run(&["log", "ls"]), "", "the log of the measurement is gone");
    let simulate = ["balancer", "simulate", SEQUENCERS, "--seconds", "60", "--model", model];
    let simulation = balanced.cluster.json(&simulate);
    assert_eq!(simulation["costs"], profile["costs"]);
    let (status, said) = balanced.cluster.fails(&["balancer", "profile", "--seconds", "0"]);
    assert!(
        status == 2 && said.contains("give --seconds a value above 0 and at most 300"),
        "{said}"
    );
}

#[test]
fn recorded_ticks_are_simulated() {
    let balanced = Balanced::start();
    balanced.put("never", "function when() return false end\n");
    balanced.cluster.run(&["log", "create", "orders"]);
    let append = || balanced.cluster.run_with_input(&["log", "append", "orders"], "a record\n");
    let history = || balanced.cluster.run(&["balancer", "history", "--json"]);
    eventually_blocking("two ticks have the unit", || {
        append();
        let units = history();
        units.lines().filter(|line| line.contains(r#""name":"orders""#)).count() >= 2
    });
    let path = balanced.cluster.folder().join("ticks");
    fs::write(&path, history()).unwrap();
    let arguments = ["balancer", "simulate", SEQUENCERS, "--history", path.to_str().unwrap()];
    let simulation = balanced.cluster.json(&arguments);
    assert_eq!(simulation["ranks"], serde_json::json!(NODES));
    assert!(simulation["totals"]["arrived"].as_f64().unwrap() > 0.0, "{simulation}");
}

#[test]
fn invalid_settings_of_a_node_are_refused() {
    let balanced = Balanced::start();
    let fails =
        |arguments: &[&str]| balanced.cluster.fails(&[&["node", "set"], arguments].concat());
    let (_, said) = fails(&["storage.0", "--label", "fast"]);
    assert!(
        said.contains("there is no node storage.0 with units that a balancer can move"),
        "{said}"
    );
    assert!(said.contains("name one of meta.0, meta.1, meta.2"), "{said}");
    let (status, said) = fails(&[NODES[0]]);
    assert!(status == 2 && said.contains("give --label NAME"), "{said}");
    for (argument, reason) in [
        ("--capacity=0", "a capacity of 0"),
        ("--capacity=nan", "a capacity of NaN"),
        ("--label=a b", "a label \"a b\" = \"yes\""),
    ] {
        let (status, said) = fails(&[NODES[0], argument]);
        assert!(status == 2 && said.contains(reason), "{said}");
    }
}

#[test]
fn invalid_settings_of_the_balancer_are_refused() {
    let balanced = Balanced::start();
    let (_, said) = balanced.cluster.fails(&["balancer", "set", "absent"]);
    assert!(said.contains("balancer/absent has no active version"), "{said}");
    assert!(said.contains("nacre program put balancer/absent FILE --activate"), "{said}");
    balanced.put("never", "function when() return false end\n");
    for tick in ["0", "-1", "nan", "100000"] {
        let tick = format!("--tick={tick}");
        let (_, said) = balanced.cluster.fails(&["balancer", "set", "never", &tick]);
        assert!(said.contains("give --tick a value from 100ms to 3600s"), "{said}");
    }
}
