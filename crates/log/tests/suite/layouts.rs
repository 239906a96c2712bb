//! Tests of new layouts while targets, or the store of the views, do not answer. They check how
//! many of the view's limited ranges are used up, and which clients must wait.

use std::time::Duration;

use super::faults::on_method;
use crate::support::{Cluster, of_slots, target};
use nacre_conformance::Fault;
use nacre_log::limits::{MAX_RANGES, RANGES_TO_GO_ROUND};
use nacre_log::view::Layout;
use nacre_log::{Log, LogEnv, Patience, Reconfiguration};
use nacre_object::ErrorKind;
use tokio::time::timeout;

/// How long the log waits for a record whose target is dead.
const LITTLE_PATIENCE: Duration = Duration::from_millis(50);
/// The slots of an object. They are few, so that stripes follow each other quickly.
const SLOTS: u32 = 2;
/// The most ranges that a view gets while no target is lost.
const CHOSEN_RANGES: usize = MAX_RANGES - RANGES_TO_GO_ROUND;
/// The records of many stripes. A bug could use up a range with each stripe.
const MANY: usize = 100 * 3 * SLOTS as usize;

async fn append(log: &Log, count: usize) {
    for n in 0..count {
        log.append(format!("{n}")).await.unwrap();
    }
}

async fn targets_of(cluster: &Cluster, log: &Log) -> usize {
    let view = cluster.open(log.name().as_str()).await.view();
    view.current_targets(&*cluster.env.placement).len()
}

fn layout(width: u32, avoid: &[usize]) -> Reconfiguration {
    let layout = Some(Layout { width, slots: SLOTS });
    let avoid = avoid.iter().map(|n| target(*n)).collect();
    Reconfiguration::Relayout { layout, avoid }
}

async fn lay_out(log: &Log, width: u32, avoid: &[usize]) {
    log.reconfigure(layout(width, avoid)).await.unwrap();
}

/// A log that has used up all ranges except those reserved for layouts that avoid lost targets. Its
/// last range uses two of three targets.
pub async fn log_of_many_ranges(cluster: &Cluster) -> Log {
    let log = cluster.create("l", of_slots(SLOTS)).await;
    append(&log, 1).await;
    for n in 1..CHOSEN_RANGES {
        lay_out(&log, 3, &[n % 3]).await;
        append(&log, 1).await;
    }
    assert_eq!(ranges_of(cluster).await, CHOSEN_RANGES);
    log
}

/// Appends while a target is away, until the log has a layout without that target.
pub async fn append_until_another_range(cluster: &Cluster, log: &Log) {
    let before = ranges_of(cluster).await;
    while ranges_of(cluster).await == before {
        // A record that was sent to the target stays in doubt until the target is back.
        let _in_doubt = timeout(LITTLE_PATIENCE, log.append("round it")).await;
    }
}

/// Ranges of the log's view as it is stored.
pub async fn ranges_of(cluster: &Cluster) -> usize {
    cluster.open("l").await.view().ranges().len()
}

#[tokio::test(start_paused = true)]
async fn a_target_that_stays_away_costs_one_range_and_is_used_again_when_it_is_back() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(SLOTS)).await;
    append(&log, 1).await;
    cluster.kill_target(1);
    while targets_of(&cluster, &log).await == 3 {
        let _in_doubt = log.append("on its way when the target was lost").await;
    }
    append(&log, MANY).await;
    assert_eq!((ranges_of(&cluster).await, targets_of(&cluster, &log).await), (2, 2));
    cluster.revive_target(1);
    while targets_of(&cluster, &log).await < 3 {
        append(&log, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_of_many_ranges_gets_new_layouts_only_to_avoid_lost_targets() {
    let cluster = Cluster::new(3, 1).await;
    let log = log_of_many_ranges(&cluster).await;
    append(&log, MANY).await;
    assert_eq!(targets_of(&cluster, &log).await, 2, "no range is spent to win one back");
    let refused = log.reconfigure(layout(3, &[])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Exhausted);
    assert!(refused.hint_text().is_some_and(|hint| hint.contains("trim")), "{refused}");
    let lost = cluster.target_of_position(&log, log.tail().await.unwrap() - 1);
    cluster.kill_target(lost);
    append_until_another_range(&cluster, &log).await;
    append(&log, MANY).await;
    assert_eq!(ranges_of(&cluster).await, CHOSEN_RANGES + 1);
    cluster.revive_target(lost);
    // Trimmed ranges make room for layouts again.
    log.trim_to(log.tail().await.unwrap() - 1).await.unwrap();
    lay_out(&log, 3, &[]).await;
    append(&log, 1).await;
    assert_eq!(targets_of(&cluster, &log).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_layout_that_cannot_be_stored_delays_no_append() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    append(&log, 1).await;
    let patience = Patience { operation: Duration::from_millis(100), ..Patience::default() };
    let impatient = LogEnv { patience, ..cluster.env.clone() };
    let impatient = Log::open(impatient, log.name().clone()).await.unwrap();
    // The store of the views can be read but not written, as on a full disk.
    cluster.system.follow(on_method("commit", Fault::FailBefore, usize::MAX));
    let refused = impatient.reconfigure(layout(2, &[])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert_eq!(log.append("meanwhile").await.unwrap(), 1);
    cluster.system.heal();
    lay_out(&log, 2, &[]).await;
    assert_eq!(log.append("later").await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_refused_while_a_log_cannot_be_extended_gets_no_positions_later() {
    let cluster = Cluster::new(1, 1).await;
    let log = cluster.create("l", of_slots(4)).await;
    log.append("zero").await.unwrap();
    let view = log.view();
    let ask = async |count: u32| cluster.ask(0, "next", &view, &count.to_le_bytes()).await;
    // The dead target refuses at once, so each attempt to lengthen the log is over soon.
    cluster.kill_target(0);
    ask(3).await.unwrap();
    for _ in 0..10 {
        let error = ask(4).await.unwrap_err();
        assert!(error.message().contains("not ready"), "{error}");
    }
    cluster.revive_target(0);
    assert_eq!(cluster.open("l").await.append("one").await.unwrap(), 4);
}
