//! What a call costs inside an OSD, in calls a second and in the OSDs' CPU time: one map set by a Luau method of the plugin, beside the same script
//! in stock `cls_lua` and the same omap set without any class. One cluster, 32 operations in flight.
//!
//! `make ceph-plugin && cargo run --release -p nacre-osd-class --example calls`

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::time::Duration;

use nacre_class::EvalRequest;
use nacre_clock::{Clock, SystemClock};
use nacre_conformance::ceph_plugin_folder;
use support::ceph::Osds;
use support::librados::Pending;
use support::{Send, call, input, program, request};

/// Operations under way.
const IN_FLIGHT: usize = 32;
/// Objects they are spread over.
const OBJECTS: usize = 64;
/// How long each way is measured, once a round.
const SPAN: Duration = Duration::from_secs(4);
/// Rounds: the ways take turns, so that all see the same machine.
const ROUNDS: usize = 5;

/// A clock tick, as Linux counts for user space.
const MICROS_PER_TICK: u64 = 10_000;

const SCRIPT: &str = "function set(input, output)
    objclass.map_set_val('key', input)
end
objclass.register(set)";
const VALUE: &str = "sixteen bytes...";

type Begin<'a> = Box<dyn Fn(&str) -> Pending + 'a>;

fn main() {
    let osds = Osds::start(&ceph_plugin_folder(), &[]);
    let class = program("bench", 1, SCRIPT);
    let named = |send| {
        let call = request("bench", vec![call("bench", "set", VALUE)]);
        input(call, &[(&class, send)])
    };
    let by_digest = named(Send::Digest);
    let eval =
        EvalRequest { script: SCRIPT.into(), handler: "set".to_owned(), input: VALUE.into() };
    let eval = eval.to_bufferlist();
    // Every OSD gets the source once.
    for number in 0..OBJECTS {
        osds.exec(&object(number), "submit", &named(Send::Source));
    }
    let client = &osds.client;
    let ways: [(&str, Begin<'_>); 3] = [
        ("plugin", Box::new(|o| client.begin_exec(o, "nacre", "submit", &by_digest))),
        ("cls_lua", Box::new(|o| client.begin_exec(o, "lua", "eval_bufferlist", &eval))),
        ("omap_set", Box::new(|o| client.begin_omap_set(o, "key", VALUE.as_bytes()))),
    ];
    let mut rates = vec![vec![]; ways.len()];
    for round in 0..=ROUNDS {
        for ((_, begin), rates) in ways.iter().zip(&mut rates) {
            let figures = measure(begin, &osds);
            // The first round warms up.
            if round > 0 {
                rates.push(figures);
            }
        }
    }
    let median = |figures: &[Figures], of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = figures.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let rate = |figures: &[Figures]| median(figures, |figures| figures.rate);
    let cpu = |figures: &[Figures]| median(figures, |figures| figures.cpu_micros);
    for ((name, _), figures) in ways.iter().zip(&rates) {
        let ratio = rate(&rates[0]) / rate(figures);
        println!(
            "{name:10} {:8.0}/s {:6.1} us of the OSDs' CPU; the plugin's rate is {ratio:.2} of it",
            rate(figures),
            cpu(figures)
        );
    }
}

/// One way, once.
#[derive(Clone)]
struct Figures {
    /// Operations a second.
    rate: f64,
    /// Microseconds of CPU that the OSDs spent on one.
    cpu_micros: f64,
}

/// Clock ticks of CPU that the OSDs have used.
fn cpu_ticks(osds: &Osds) -> u64 {
    let osds = osds.pids().into_iter().filter(|(name, _)| name.starts_with("osd"));
    let ticks = |pid: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // User and system time, fields 14 and 15 of the whole.
        [11, 12].map(|at: usize| fields[at].parse::<u64>().expect("a number")).iter().sum()
    };
    osds.filter_map(|(_, pid)| pid).map(ticks).sum()
}

fn object(number: usize) -> String {
    format!("bench.{}", number % OBJECTS)
}

fn measure(begin: &Begin<'_>, osds: &Osds) -> Figures {
    let clock = SystemClock::default();
    let mut under_way = VecDeque::new();
    let mut done = 0;
    let ticks = cpu_ticks(osds);
    let began = clock.monotonic();
    while clock.monotonic() - began < SPAN {
        while under_way.len() < IN_FLIGHT {
            under_way.push_back(begin(&object(done + under_way.len())));
        }
        if let Some(oldest) = under_way.pop_front() {
            let answer: support::librados::Answer = Pending::wait(oldest);
            assert!(answer.status >= 0, "{answer:?}");
            done += 1;
        }
    }
    let took = clock.monotonic() - began;
    under_way.into_iter().for_each(|pending| drop(pending.wait()));
    let ticks = cpu_ticks(osds) - ticks;
    Figures {
        rate: done as f64 / took.as_secs_f64(),
        cpu_micros: (ticks * MICROS_PER_TICK) as f64 / done as f64,
    }
}
