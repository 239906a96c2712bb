//! Random faults while clients hold the sequencer's capability. Messages are late and lost, nodes
//! are killed, and holders fall silent. The sequencer moves, and the layout and the policy change.
//! A seed decides what happens.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nacre_clock::Random;
use nacre_conformance::histories::check_log;
use nacre_log::view::Layout;
use nacre_log::{Log, Reconfiguration};
use tokio::time::{sleep, timeout};

use crate::suite::linearizability::{Client, History, read_all};
use crate::support::{Cluster, node, of_slots};

const NODES: u64 = 3;
const CLIENTS: u64 = 3;
const CALLS: u64 = 60;
/// What goes wrong, one thing after another.
const MISFORTUNES: usize = 8;
const POLICIES: [&str; 3] = ["best_effort", "turns", "never"];
/// How long the test waits for a change of the log, such as a move, before it gives the change up.
const ORDER_PATIENCE: Duration = Duration::from_secs(2);
/// Longer than any run lasts.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn logs_keep_their_promises_when_holders_fail_at_random() {
    let (mut runs, mut holders) = (0, 0);
    for seed in crate::bed::seeds(40) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        let ran = runtime.block_on(async { timeout(PATIENCE, run(seed)).await });
        let (history, of_run) = ran.unwrap_or_else(|_| panic!("seed {seed} does not end"));
        (runs, holders) = (runs + 1, holders + of_run);
        check_log(&history.operations()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    println!("{runs} runs with {holders} holders");
    assert!(runs < 20 || holders > runs, "clients hold the capability in most of them");
}

/// Returns the history, and how many clients have held the capability.
async fn run(seed: u64) -> (History, usize) {
    let mut random = Random::seeded(seed);
    let cluster = Arc::new(Cluster::new(3, NODES as usize).await);
    let log = cluster.create("l", of_slots(30)).await;
    let history = History::default();
    cluster.begin_storm(random.next_u64());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|name| {
            let (cluster, history) = (Arc::clone(&cluster), history.clone());
            tokio::spawn(use_log(cluster, history, Random::seeded(random.next_u64()), name))
        })
        .collect();
    for _ in 0..MISFORTUNES {
        sleep(Duration::from_millis(100 + random.below(500))).await;
        misfortune(&cluster, &log, &mut random).await;
    }
    cluster.end_storm();
    for client in join_all(clients).await {
        client.unwrap();
    }
    read_all(&log, &history).await;
    (history, cluster.holders())
}

/// A client that makes its calls in bursts. Between bursts it is silent, or opens the log anew.
async fn use_log(cluster: Arc<Cluster>, history: History, mut random: Random, name: u64) {
    let random_of_client = Random::seeded(random.next_u64());
    let log = cluster.open("l").await;
    let mut client = Client { log, history, random: random_of_client, name };
    let mut n = 0;
    while n < CALLS {
        let appends_only = random.one_in(2);
        let end = CALLS.min(n + 1 + random.below(30));
        for call in n..end {
            match appends_only {
                true => client.append(name * 1000 + call).await,
                false => client.call(call).await,
            }
        }
        n = end;
        match random.below(6) {
            0 => client.log = cluster.open("l").await,
            _ => sleep(Duration::from_millis(random.below(1_500))).await,
        }
    }
}

async fn misfortune(cluster: &Cluster, log: &Log, random: &mut Random) {
    let n = random.below(NODES) as usize;
    let while_it_lasts = Duration::from_millis(random.below(900));
    match random.below(6) {
        0 => {
            cluster.kill_node(n);
            sleep(while_it_lasts).await;
            cluster.start_node(n);
        }
        1 => {
            cluster.cut_holder_off();
            sleep(while_it_lasts).await;
            cluster.reconnect();
        }
        2 => drop(timeout(ORDER_PATIENCE, log.move_sequencer(node(n))).await),
        3 => {
            let layout = Some(Layout { width: 1 + n as u32, slots: 20 + n as u32 });
            let change = Reconfiguration::Relayout { layout, avoid: vec![] };
            drop(timeout(ORDER_PATIENCE, log.reconfigure(change)).await);
        }
        4 => {
            let change = Reconfiguration::Capability(Some(POLICIES[n].parse().unwrap()));
            drop(timeout(ORDER_PATIENCE, log.reconfigure(change)).await);
        }
        _ => sleep(while_it_lasts).await,
    }
}
