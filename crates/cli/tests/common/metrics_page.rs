//! The metrics of a process of a cluster.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use super::RunningCluster;

/// Where a process' metrics are.
pub fn address_of(cluster: &RunningCluster, node: &str) -> String {
    let targets = std::fs::read(cluster.folder().join("metrics.json")).unwrap();
    let targets: Vec<Value> = serde_json::from_slice(&targets).unwrap();
    let group = targets.iter().find(|group| group["labels"]["node"] == node).unwrap();
    group["targets"][0].as_str().unwrap().to_owned()
}

/// Sends these bytes to a process, and returns its answer.
pub fn ask(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // It may answer before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// The value of a counter without labels.
pub fn counter(cluster: &RunningCluster, node: &str, name: &str) -> f64 {
    let page = ask(&address_of(cluster, node), b"GET /metrics HTTP/1.1\r\n\r\n");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
}
