//! Tests the metrics of every process: they have the format of Prometheus, and their values are
//! right.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use nacre_clock::{Clock, SystemClock};
use nacre_conformance::wait::eventually_blocking;
use nacre_node::free_ports;
use serde_json::Value;

use common::metrics_page::{address_of, ask};
use common::{NACRE, RunningCluster};

/// Debian's, which has the packages the Makefile installs.
const PYTHON: &str = "/usr/bin/python3";

/// All samples of all processes.
struct Scrape(Vec<(String, String, Value, f64)>);

impl Scrape {
    fn of(cluster: &RunningCluster) -> Self {
        let output = Command::new(PYTHON)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scrape.py"))
            .arg(cluster.folder().join("metrics.json"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        Self(serde_json::from_slice(&output.stdout).unwrap())
    }

    /// The sum of a sample over all processes, of those series that have the labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |of: &Value| labels.iter().all(|(label, value)| of[label] == *value);
        let named = self.0.iter().filter(|(_, sample, of, _)| sample == name && has(of));
        named.map(|(.., value)| value).sum()
    }

    /// In how many processes there is a sample.
    fn processes_with(&self, name: &str) -> usize {
        let mut nodes: Vec<_> =
            self.0.iter().filter(|(_, sample, ..)| sample == name).map(|(node, ..)| node).collect();
        nodes.dedup();
        nodes.len()
    }
}

#[test]
fn every_process_exports_metrics_in_the_format_of_prometheus() {
    let cluster = RunningCluster::start();
    let before = Scrape::of(&cluster);
    // Three targets, a metadata node, the supervisor.
    assert_eq!(before.processes_with("process_resident_memory_bytes"), 5);
    assert_eq!(before.processes_with("nacre_build_info"), 5);
    assert_eq!(before.processes_with("nacre_transactions_total"), 3);
    assert_eq!(before.sum("nacre_node_up", &[]), 4.0);

    for object in ["a", "b", "c"] {
        cluster.run_with_input(&["object", "put", &format!("data/{object}")], "bytes");
        cluster.run(&["object", "zero", &format!("data/{object}"), "0", "1"]);
    }
    cluster.fails(&["object", "get", "data/absent"]);
    let after = Scrape::of(&cluster);
    let moved =
        |name: &str, labels: &[(&str, &str)]| after.sum(name, labels) - before.sum(name, labels);
    // Nodes also write by themselves, but never send a `zero`. So the counts of `zero` are exact.
    let zero = [("kind", "zero"), ("result", "ok")];
    assert_eq!(moved("nacre_requests_total", &zero), 3.0);
    assert_eq!(moved("nacre_request_duration_seconds_count", &zero[..1]), 3.0);
    assert!(moved("nacre_request_duration_seconds_sum", &zero[..1]) > 0.0);
    assert!(moved("nacre_requests_total", &[("result", "not found")]) >= 1.0);
    let groups = moved("nacre_journal_groups_total", &[]);
    assert!(groups >= 3.0);
    assert_eq!(moved("nacre_journal_sync_duration_seconds_count", &[]), groups);
    assert!(moved("nacre_journal_group_transactions_sum", &[]) >= groups);
    assert!(moved("nacre_journal_written_bytes_total", &[]) > 0.0);

    const REFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/class/refs.brados");
    cluster.run(&["program", "put", "class/refs", REFS, "--activate"]);
    cluster.run(&["class", "call", "data/a", "refs", "get_ref", "--row", r#"["tag"]"#]);
    let called = Scrape::of(&cluster);
    let get_ref = [("class", "refs"), ("method", "get_ref")];
    assert_eq!(called.sum("nacre_class_request_bytes_count", &get_ref), 1.0);
    assert_eq!(called.sum("nacre_class_request_bytes_sum", &get_ref), 8.0);

    cluster.run(&["log", "create", "l"]);
    cluster.run_with_input(&["log", "append", "l"], "1\n2\n3\n4\n");
    let logged = Scrape::of(&cluster);
    assert!(logged.sum("nacre_sequencer_positions_total", &[]) >= 4.0);
    assert_eq!(logged.sum("nacre_sequencer_logs", &[]), 1.0);
    assert_eq!(logged.sum("nacre_sequencer_recovery_duration_seconds_count", &[]), 1.0);
}

/// Bytes that are no TLS client hello.
const NOISE: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

#[test]
fn refused_peers_are_counted_and_reported_once_in_a_while() {
    let cluster = RunningCluster::start_tls();
    let file = std::fs::read(cluster.folder().join("cluster.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    let address = file["nodes"][0]["address"].as_str().unwrap();
    let tls = [("reason", "tls")];
    assert_eq!(Scrape::of(&cluster).sum("nacre_refusals_total", &tls), 0.0);
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(NOISE).unwrap();
        // The node has counted it when it closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(Scrape::of(&cluster).sum("nacre_refusals_total", &tls), 20.0);
    let said = |events: &str| events.matches("a peer was refused").count();
    let mut events = cluster.run(&["events"]);
    // A separate task of the node appends the event, so it may come later than the count.
    while said(&events) == 0 {
        events = cluster.run(&["events"]);
    }
    assert_eq!(said(&events), 1, "{events}");
    assert!(events.contains("127.0.0.1") || events.contains("127.0.0.2"), "{events}");
}

#[test]
fn metrics_follow_changes_of_versions_faults_and_budgets() {
    let cluster = RunningCluster::start();
    let folder = cluster.folder().to_owned();
    let put = |source: &str| {
        let file = folder.join("spin.lua");
        std::fs::write(&file, source).unwrap();
        cluster.run(&["program", "put", "class/spin", file.to_str().unwrap(), "--activate"]);
    };
    let spin = |method: &str| cluster.fails(&["class", "call", "data/o", "spin", method]);
    let version = [("kind", "class"), ("program", "spin")];

    put("function bad() error('oh') end objclass.register(bad)");
    spin("bad");
    let first = Scrape::of(&cluster);
    assert_eq!(first.sum("nacre_program_faults_total", &[]), 1.0);
    assert_eq!(first.sum("nacre_program_budget_exceeded_total", &[]), 0.0);

    put("function spin() while true do end end objclass.register(spin)");
    spin("spin");
    let second = Scrape::of(&cluster);
    assert_eq!(second.sum("nacre_program_faults_total", &[]), 2.0);
    assert_eq!(second.sum("nacre_program_budget_exceeded_total", &[("limit", "time")]), 1.0);
    // The target that the call reached has the new version. Other targets may not have it yet.
    let newest = |scrape: &Scrape, version_number: f64| {
        let is_it = |of: &Value| version.iter().all(|(label, value)| of[label] == *value);
        scrape.0.iter().any(|(_, name, of, value)| {
            name == "nacre_program_version" && is_it(of) && *value == version_number
        })
    };
    assert!(newest(&first, 1.0) && !newest(&first, 2.0));
    assert!(newest(&second, 2.0));
}

#[test]
fn the_supervisor_counts_the_restarts_of_a_node() {
    let cluster = RunningCluster::start();
    cluster.kill_node("storage.0");
    let supervisor = address_of(&cluster, "supervisor");
    let (up, again) = (
        r#"nacre_node_up{node="storage.0"} 1"#,
        r#"nacre_node_restarts_total{node="storage.0"} 1"#,
    );
    eventually_blocking("the supervisor counts the restart", || {
        let page = ask(&supervisor, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        page.contains(up) && page.contains(again)
    });
    assert_eq!(Scrape::of(&cluster).processes_with("nacre_transactions_total"), 3);
}

#[test]
fn a_malformed_metrics_request_gets_an_error_and_silent_connections_block_nobody() {
    let cluster = RunningCluster::start();
    let address = address_of(&cluster, "storage.0");
    let ask = |request: &[u8]| ask(&address, request).lines().next().unwrap_or_default().to_owned();
    assert_eq!(ask(b"GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
    assert_eq!(ask(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404 Not Found");
    assert_eq!(ask(b"PUT /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(ask(b"\0\xff\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024));
    assert!(ask(long.as_bytes()).contains(" 431 "));
    let silent: Vec<_> = (0..7).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert_eq!(ask(b"GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
    drop(silent);
}

/// Stops listening on a port, and waits until the port is free. This can take a short time: if
/// another test has just forked a process, that process holds a copy of the socket until it
/// executes its own program.
fn release(listener: TcpListener) {
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let clock = SystemClock::default();
    let deadline = clock.monotonic() + Duration::from_secs(20);
    let held = format!(":{port:04X} 00000000:0000 0A");
    while std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&held) {
        assert!(clock.monotonic() < deadline, "port {port} is still listened on");
        std::thread::yield_now();
    }
}

#[test]
fn metrics_are_served_on_the_requested_ports() {
    let folder = tempfile::tempdir().unwrap();
    // The supervisor, three targets, a metadata node.
    let first = free_ports(5).unwrap();
    let port = first.to_string();
    let cluster = RunningCluster::start_with(folder.path(), &["--metrics-port", &port]);
    let nodes = ["supervisor", "storage.0", "storage.1", "storage.2", "meta.0"];
    for (node, port) in nodes.into_iter().zip(first..) {
        let address = format!("127.0.0.1:{port}");
        assert_eq!(address_of(&cluster, node), address, "{node}");
        let page = ask(&address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.contains("nacre_build_info"), "{node}: {page}");
    }
}

#[test]
fn an_occupied_metrics_port_is_named_and_nothing_is_left_running() {
    let folder = tempfile::tempdir().unwrap();
    let first = free_ports(5).unwrap();
    // The supervisor's own, then that of a node.
    for taken in [first, first + 2] {
        let held = TcpListener::bind(("127.0.0.1", taken)).unwrap();
        let up = Command::new(NACRE)
            .args(["up", "--metrics-port", &first.to_string(), "--cluster"])
            .arg(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8(up.stderr).unwrap();
        assert_eq!(up.status.code(), Some(1), "{said}");
        assert!(said.contains(&taken.to_string()), "{said}");
        release(held);
    }
    let port = first.to_string();
    let cluster = RunningCluster::start_with(folder.path(), &["--metrics-port", &port]);
    assert_eq!(address_of(&cluster, "storage.1"), format!("127.0.0.1:{}", first + 2));
}
