//! Tests of sequencers that move from node to node while clients use the log.

use nacre_conformance::Fault;
use nacre_conformance::faults::no_faults;
use nacre_host::HAND_OVER_PATIENCE;
use nacre_log::Log;
use nacre_object::{ErrorKind, NodeName};
use tokio::time::Instant;

use super::faults::{Writers, more, on_method};
use crate::support::checker::Checker;
use crate::support::{Cluster, node, of_slots};

/// How many times a move is tried. It fails if the new sequencer's node takes too long, for example
/// on a busy store.
const MAX_MOVES: usize = 50;

async fn move_to(log: &Log, to: usize) {
    for _ in 0..MAX_MOVES {
        match log.move_sequencer(node(to)).await {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
    panic!("node {to} did not take over in {MAX_MOVES} moves");
}

#[tokio::test(start_paused = true)]
async fn a_sequencer_that_moves_loses_no_record_and_doubles_none() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 6);
    more(&checker, 20).await;
    for turn in 0..30 {
        let to = (cluster.sequencer_of(&log).await + 1 + turn % 2) % 3;
        move_to(&log, to).await;
        assert_eq!(cluster.sequencer_of(&log).await, to);
        more(&checker, 20).await;
    }
    writers.stop().await;
    assert_eq!(checker.unknown(), 0);
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_sequencer_whose_successor_dies_right_after_a_move_is_replaced() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 6);
    for _ in 0..4 {
        more(&checker, 40).await;
        let to = (cluster.sequencer_of(&log).await + 1) % 3;
        move_to(&log, to).await;
        cluster.kill_node(to);
        more(&checker, 40).await;
        cluster.start_node(to);
    }
    writers.stop().await;
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_move_succeeds_once_the_new_node_has_claimed_the_view_even_if_its_recovery_is_slow() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    let checker = Checker::default();
    let writers = Writers::start(&cluster, &checker, 6);
    more(&checker, 40).await;
    let to = (cluster.sequencer_of(&log).await + 1) % 3;
    // The successor claims the view. Then its seal takes longer than the old sequencer waits.
    cluster.target(0).follow(on_method("seal", Fault::Hold, 1));
    let before = Instant::now();
    log.move_sequencer(node(to)).await.unwrap();
    assert!(before.elapsed() >= HAND_OVER_PATIENCE);
    cluster.target(0).follow(no_faults());
    cluster.target(0).release(1);
    assert_eq!(cluster.sequencer_of(&log).await, to);
    more(&checker, 40).await;
    writers.stop().await;
    checker.check(&log).await;
}

#[tokio::test(start_paused = true)]
async fn a_sequencer_stays_where_it_is_if_the_other_node_is_dead() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    log.append("a record").await.unwrap();
    let here = cluster.sequencer_of(&log).await;
    let to = (here + 1) % 3;
    cluster.kill_node(to);
    let refused = log.move_sequencer(node(to)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(cluster.sequencer_of(&log).await, here);
    assert_eq!(log.append("another").await.unwrap(), 1, "no position was wasted");
}

#[tokio::test(start_paused = true)]
async fn a_sequencer_moves_only_to_nodes_that_host_sequencers() {
    let cluster = Cluster::new(3, 3).await;
    let log = cluster.create("l", of_slots(50)).await;
    let refused = log.move_sequencer(NodeName::new("storage.0").unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
}
