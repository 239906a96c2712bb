//! Tests nodes that listen only with TLS: they connect to each other, and refuse clients without a
//! certificate.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use common::{NACRE, RunningCluster};
use nacre_conformance::wait::eventually_blocking;
use serde_json::Value;

const COUNTER: &str = include_str!("../../../programs/class/counter.lua");
/// How a client of HTTP/2 begins: its preface, then an empty frame of settings.
const PLAIN_TEXT: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A node ends a connection that does not shake hands within some seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn addresses(cluster: &RunningCluster) -> Vec<String> {
    let file = json_of(&cluster.folder().join("cluster.json"));
    let nodes = file["nodes"].as_array().unwrap().clone();
    assert!(nodes.iter().all(|node| node["socket"].is_null()), "there is no other way in");
    nodes.iter().map(|node| node["address"].as_str().unwrap().to_owned()).collect()
}

fn run_as(identity: &Path, arguments: &[&str]) -> Output {
    Command::new(NACRE).args(arguments).env("NACRE_IDENTITY", identity).output().unwrap()
}

/// The metadata node stores nothing itself. The programs that it runs, the map of a log, and the
/// objects that it seals are on the targets. So it connects to the targets as a client, with TLS.
#[test]
fn nodes_reach_each_other_over_tls() {
    let cluster = RunningCluster::start_tls();
    assert_eq!(addresses(&cluster).len(), 3);
    let counter = cluster.folder().join("counter.lua");
    std::fs::write(&counter, COUNTER).unwrap();
    let put = ["program", "put", "class/counter", counter.to_str().unwrap(), "--activate"];
    assert!(cluster.run(&put).contains("active on every node"));
    eventually_blocking("meta.0 has reported", || {
        cluster.run(&["program", "status", "class/counter"]).contains("meta.0")
    });

    cluster.run(&["log", "create", "shared", "--width", "2"]);
    cluster.run_with_input(&["log", "append", "shared"], "one\n");
    // The node that takes over the sequencer must reach every target, because it asks each for the
    // log's tail before it serves.
    cluster.kill_node("meta.0");
    let identity = cluster.folder().join("writer.json");
    let path = identity.to_str().unwrap();
    cluster.run(&["entity", "add", "writer", "--grant", "rw log=shared", "--out", path]);
    let lines = cluster.folder().join("lines");
    std::fs::write(&lines, "two\nthree\n").unwrap();
    let appended = run_as(&identity, &["log", "append", "shared", lines.to_str().unwrap()]);
    assert!(appended.status.success(), "{}", String::from_utf8_lossy(&appended.stderr));
    let read = String::from_utf8(run_as(&identity, &["log", "read", "shared"]).stdout).unwrap();
    for record in ["one", "two", "three"] {
        assert!(read.contains(record), "{read}");
    }
}

#[test]
fn a_client_without_tls_learns_nothing_at_any_node() {
    let cluster = RunningCluster::start_tls();
    for address in addresses(&cluster) {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(MAX_SILENCE)).unwrap();
        stream.write_all(PLAIN_TEXT).unwrap();
        let mut answer = Vec::new();
        // A reset is an end as well.
        let _ = stream.read_to_end(&mut answer);
        // The node answers nothing or a TLS alert, and never a frame of HTTP/2.
        assert!(answer.is_empty() || answer[0] == 21 && answer.len() == 7, "{answer:02x?}");
    }
    cluster.run_with_input(&["object", "append", "data/o"], "the nodes go on");
}

#[test]
fn an_administrator_of_another_authority_is_refused() {
    let (cluster, other) = (RunningCluster::start_tls(), RunningCluster::start_tls());
    let admin = json_of(&cluster.folder().join("tls/admin.json"));
    let mut stranger = json_of(&other.folder().join("tls/admin.json"));
    // The stranger knows the nodes' addresses, and trusts their certificates.
    stranger["nodes"] = admin["nodes"].clone();
    stranger["authority"] = admin["authority"].clone();
    let file = other.folder().join("stranger.json");
    std::fs::write(&file, stranger.to_string()).unwrap();
    for arguments in [&["object", "get", "data/o"][..], &["status"]] {
        let asked = run_as(&file, arguments);
        let said = String::from_utf8_lossy(&asked.stderr);
        assert_eq!(asked.status.code(), Some(1), "{said}");
        assert!(
            said.contains("the node refuses this identity: its certificate is of another"),
            "{said}"
        );
    }
    assert_eq!(run_as(&other.folder().join("tls/admin.json"), &["status"]).status.code(), Some(0));
}
