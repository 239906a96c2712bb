//! Clients hold capabilities while messages are late or lost, nodes are killed or cut off, and
//! holders stop answering. Meanwhile resources move, and file types are replaced. A seed decides
//! what happens; time is virtual.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Cluster, node};
use nacre_clock::Random;
use nacre_conformance::seeds;
use nacre_object::ErrorKind;
use serde_json::Value;
use tokio::time::{sleep, timeout};

const SEQUENCER: &str = include_str!("../../../programs/filetype/sequencer.lua");
/// A journaled counter whose readers keep copies.
const COUNTER: &str = r#"
filetype.capability("shared")
function init() return { n = 0 } end
filetype.write("add", function(state) state.n = state.n + 1; return state.n end)
filetype.read("get", function(state) return state.n end)
"#;

/// Short turns, for clients that are not alone.
const TURNS: &str = "function grant(ask) return { operations = 7, hold = 0.1 } end";

const NODES: usize = 3;
const CLIENTS: u64 = 4;
const OPERATIONS: usize = 40;
/// What goes wrong, one thing after another.
const MISFORTUNES: usize = 8;
/// Longer than anything may last.
const PATIENCE: Duration = Duration::from_secs(120);

/// An operation with an answer; its times are counts of events.
#[derive(Debug, Clone, Copy)]
struct Done {
    began: u64,
    ended: u64,
    method: &'static str,
    value: u64,
}

/// What came of a run.
#[derive(Debug, Default)]
struct History {
    /// Of the sequencer, and of the counter.
    done: [Vec<Done>; 2],
    /// Additions that may have happened or not.
    unknown: u64,
}

#[test]
fn resources_keep_their_promises_under_random_faults() {
    let mut holders = 0;
    let mut runs = 0;
    for seed in seeds(150) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        let ran = runtime.block_on(async { timeout(PATIENCE, run(seed)).await });
        let (history, of_run) = ran.unwrap_or_else(|_| panic!("seed {seed} does not end"));
        holders += of_run;
        runs += 1;
        if let Err(broken) = judge(&history) {
            panic!("seed {seed}: {broken}");
        }
    }
    println!("{runs} runs with {holders} holders");
    assert!(runs < 100 || holders > 3 * runs, "clients hold capabilities in all of them");
}

async fn run(seed: u64) -> (History, usize) {
    let mut random = Random::seeded(seed);
    let cluster = Arc::new(Cluster::new(NODES));
    cluster.install_capability("turns", 1, TURNS);
    install(&cluster, 1);
    cluster.create("/seq", "sequencer").await;
    cluster.create("/n", "counter").await;
    cluster.nodes.begin_storm(random.next_u64());
    let clock = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let random = Random::seeded(random.next_u64());
            tokio::spawn(client(Arc::clone(&cluster), random, Arc::clone(&clock)))
        })
        .collect();
    for version in 2..2 + MISFORTUNES as u64 {
        sleep(Duration::from_millis(100 + random.below(600))).await;
        misfortune(&cluster, &mut random, version).await;
    }
    cluster.nodes.end_storm();
    let mut history = History::default();
    for client in clients {
        let of_client = client.await.unwrap();
        for (all, done) in history.done.iter_mut().zip(of_client.done) {
            all.extend(done);
        }
        history.unknown += of_client.unknown;
    }
    (history, cluster.nodes.holders())
}

/// Installs a version of both file types. Every second version lets clients take turns.
fn install(cluster: &Cluster, version: u64) {
    let named = |source: &str, mode: &str| match version % 2 {
        0 => source.to_owned(),
        _ => source.replace(&format!("\"{mode}\")"), &format!("\"{mode}\", \"turns\")")),
    };
    cluster.install("sequencer", version, &named(SEQUENCER, "exclusive"));
    cluster.install("counter", version, &named(COUNTER, "shared"));
}

async fn misfortune(cluster: &Arc<Cluster>, random: &mut Random, version: u64) {
    let n = random.below(NODES as u64) as usize;
    let while_it_lasts = Duration::from_millis(random.below(900));
    match random.below(6) {
        0 => {
            cluster.kill_node(n);
            sleep(while_it_lasts).await;
            cluster.start_node(n);
        }
        1 => {
            cluster.cut_off(n);
            sleep(while_it_lasts).await;
            cluster.join(n);
        }
        2 => {
            cluster.nodes.cut_holders_off(true);
            sleep(while_it_lasts).await;
            cluster.nodes.cut_holders_off(false);
        }
        3 => {
            let path = if random.one_in(2) { "/seq" } else { "/n" };
            // The move may fail, because no node answers at present.
            let _moved = cluster.open(path).await.move_to(&node(n)).await;
        }
        4 => {
            install(cluster, version);
        }
        _ => sleep(while_it_lasts).await,
    }
}

/// A client: bursts of calls of one resource, and pauses.
async fn client(cluster: Arc<Cluster>, mut random: Random, clock: Arc<AtomicU64>) -> History {
    let mut history = History::default();
    let paths = ["/seq", "/n"];
    let mut handles = [cluster.open(paths[0]).await, cluster.open(paths[1]).await];
    let mut left = OPERATIONS;
    while left > 0 {
        let which = random.below(2) as usize;
        let mostly_reads = random.one_in(2);
        for _ in 0..1 + random.below(12) {
            left = left.saturating_sub(1);
            let reads = if mostly_reads { !random.one_in(6) } else { random.one_in(6) };
            let method = match (which, reads) {
                (0, true) => "read",
                (0, false) => "next",
                (_, true) => "get",
                (_, false) => "add",
            };
            let began = clock.fetch_add(1, Ordering::Relaxed);
            match handles[which].call(method, Value::Null).await {
                Ok(value) => {
                    let ended = clock.fetch_add(1, Ordering::Relaxed);
                    let value = value.as_f64().unwrap() as u64;
                    history.done[which].push(Done { began, ended, method, value });
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    history.unknown += u64::from(method == "add");
                }
            }
        }
        match random.below(8) {
            0 => handles[which] = cluster.open(paths[which]).await,
            1 => handles[which].release().await,
            _ => sleep(Duration::from_millis(random.below(1_500))).await,
        }
    }
    history
}

/// What is wrong with a history.
fn judge(history: &History) -> Result<(), String> {
    let [positions, counts] = &history.done;
    for (all, changes) in [(positions, "next"), (counts, "add")] {
        let changed: Vec<_> = all.iter().filter(|done| done.method == changes).collect();
        for (n, one) in changed.iter().enumerate() {
            for other in &changed[n + 1..] {
                if one.value == other.value {
                    return Err(format!("given twice: {one:?} {other:?}"));
                }
                let (first, second) =
                    if one.value < other.value { (one, other) } else { (other, one) };
                if second.ended < first.began {
                    return Err(format!("out of order: {second:?} {first:?}"));
                }
            }
        }
        for read in all.iter().filter(|done| done.method != changes) {
            // The log's tail is the last position plus one, while the counter is the last value
            // itself.
            let behind = u64::from(changes == "next");
            let stale =
                changed.iter().find(|it| it.ended < read.began && it.value + behind > read.value);
            if let Some(stale) = stale {
                return Err(format!("{read:?} does not see {stale:?}"));
            }
            let early =
                changed.iter().find(|it| it.began > read.ended && it.value + behind <= read.value);
            if let Some(early) = early {
                return Err(format!("{read:?} sees {early:?}, which began later"));
            }
        }
    }
    let greatest = counts.iter().map(|done| done.value).max().unwrap_or_default();
    let added = counts.iter().filter(|done| done.method == "add").count() as u64;
    if greatest > added + history.unknown {
        return Err(format!(
            "{added} additions and {} unknown came to {greatest}",
            history.unknown
        ));
    }
    Ok(())
}
