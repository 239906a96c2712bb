//! What the class adds to an OSD's memory: as many bare omap sets first, so that the OSD's own logs and
//! caches are full, then calls of many classes, and the memory after each part.
//!
//! `make ceph-plugin && cargo run --release -p nacre-osd-class --example memory`

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::VecDeque;

use nacre_conformance::ceph_plugin_folder;
use support::ceph::Osds;
use support::librados::Pending;
use support::{Send, call, input, program, request};

/// Operations under way.
const IN_FLIGHT: usize = 32;
/// Objects they are spread over.
const OBJECTS: usize = 64;
/// Different programs.
const CLASSES: usize = 50;
/// Operations of one part.
const PART: usize = 50_000;
/// Parts of each kind.
const PARTS: usize = 4;
/// An OSD remembers thousands of operations of each placement group, which would hide all else.
const SHORT_LOGS: [&str; 3] =
    ["osd_min_pg_log_entries=100", "osd_max_pg_log_entries=100", "osd_pg_log_dups_tracked=100"];
const VALUE: &[u8] = b"sixteen bytes...";

fn main() {
    let short_logs = SHORT_LOGS.iter().flat_map(|setting| ["--set", setting]);
    let options: Vec<&str> = ["--osds", "1"].into_iter().chain(short_logs).collect();
    let osds = Osds::start(&ceph_plugin_folder(), &options);
    let inputs: Vec<Vec<u8>> = (0..CLASSES).map(|number| call_of(number, &osds)).collect();
    let client = &osds.client;
    for _ in 0..PARTS {
        run(|number| client.begin_omap_set(&object(number), "key", VALUE));
        println!("bare    {:6} KiB", resident_kib(&osds));
    }
    for _ in 0..PARTS {
        run(|number| {
            client.begin_exec(&object(number), "nacre", "submit", &inputs[number % CLASSES])
        });
        println!("class   {:6} KiB", resident_kib(&osds));
    }
}

/// A call of a program of its own, which the OSD has compiled then.
fn call_of(number: usize, osds: &Osds) -> Vec<u8> {
    let source = format!(
        "-- program {number}\nfunction set(input, output) objclass.map_set_val('key', input) end
        objclass.register(set)"
    );
    let class = format!("class.{number}");
    let program = program(&class, 1, &source);
    let named = |send| {
        let call = request("bench", vec![call(&class, "set", VALUE)]);
        input(call, &[(&program, send)])
    };
    osds.exec("bench.0", "submit", &named(Send::Source));
    named(Send::Digest)
}

fn run(begin: impl Fn(usize) -> Pending) {
    let mut under_way = VecDeque::new();
    for number in 0..PART {
        if under_way.len() == IN_FLIGHT {
            under_way.pop_front().map(Pending::wait);
        }
        under_way.push_back(begin(number));
    }
    under_way.into_iter().for_each(|pending| assert!(pending.wait().status >= 0));
}

fn object(number: usize) -> String {
    format!("bench.{}", number % OBJECTS)
}

fn resident_kib(osds: &Osds) -> u64 {
    let osd = osds.pids().into_iter().find(|(name, _)| name == "osd.0");
    let pid = osd.and_then(|(_, pid)| pid).expect("it lives");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).expect("it is told");
    kib.parse().expect("a number")
}
