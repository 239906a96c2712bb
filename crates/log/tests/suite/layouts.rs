//! Layouts that change while targets or the views' store are away: what that may cost, and whom.

use std::time::Duration;

use super::faults::on_method;
use crate::support::{Cluster, of_slots, target};
use nacre_conformance::Fault;
use nacre_log::limits::MAX_RANGES;
use nacre_log::view::Layout;
use nacre_log::{Log, LogEnv, Patience, Reconfiguration};
use nacre_object::ErrorKind;

/// Slots of an object, so few that stripes follow each other quickly.
const SLOTS: u32 = 2;
/// Records of more stripes than a view has ranges.
const MANY: usize = (MAX_RANGES + 8) * 3 * SLOTS as usize;

async fn append(log: &Log, count: usize) {
    for n in 0..count {
        log.append(format!("{n}")).await.unwrap();
    }
}

async fn targets_of(cluster: &Cluster, log: &Log) -> usize {
    let view = cluster.open(log.name().as_str()).await.view();
    view.current_targets(&*cluster.env.placement).len()
}

async fn lay_out(log: &Log, width: u32, avoid: &[usize]) {
    let layout = Some(Layout { width, slots: SLOTS });
    let avoid = avoid.iter().map(|n| target(*n)).collect();
    log.reconfigure(Reconfiguration::Relayout { layout, avoid }).await.unwrap();
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
    let ranges = cluster.open("l").await.view().ranges().len();
    assert_eq!((ranges, targets_of(&cluster, &log).await), (2, 2));
    cluster.revive_target(1);
    while targets_of(&cluster, &log).await < 3 {
        append(&log, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_without_a_range_left_goes_on_with_the_targets_it_has() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(SLOTS)).await;
    append(&log, 1).await;
    for n in 1..MAX_RANGES {
        lay_out(&log, 3, &[n % 3]).await;
        append(&log, 1).await;
    }
    assert_eq!(cluster.open("l").await.view().ranges().len(), MAX_RANGES);
    append(&log, MANY).await;
    assert_eq!(targets_of(&cluster, &log).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_layout_that_cannot_be_stored_holds_nobody_up() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    append(&log, 1).await;
    let patience = Patience { operation: Duration::from_millis(100), ..Patience::default() };
    let impatient = LogEnv { patience, ..cluster.env.clone() };
    let impatient = Log::open(impatient, log.name().clone()).await.unwrap();
    // What can be read but not written, as a disk that is full.
    cluster.system.follow(on_method("commit", Fault::FailBefore, usize::MAX));
    let layout = Some(Layout { width: 2, slots: SLOTS });
    let change = Reconfiguration::Relayout { layout, avoid: vec![] };
    let refused = impatient.reconfigure(change).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert_eq!(log.append("meanwhile").await.unwrap(), 1);
    cluster.system.heal();
    lay_out(&log, 2, &[]).await;
    assert_eq!(log.append("later").await.unwrap(), 2);
}
