//! Logs that are removed, and others made under their names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::faults::on_method;
use crate::bed;
use crate::support::{Cluster, of_slots};
use bytes::Bytes;
use nacre_conformance::Fault;
use nacre_conformance::faults::{FaultPlan, Operation};
use nacre_log::{Entry, Log, LogName, Patience};
use nacre_object::{ErrorKind, Result};

/// What somebody has who soon meets nobody any more.
const LAST_PATIENCE: Duration = Duration::from_millis(50);

fn name(text: &str) -> LogName {
    LogName::new(text).unwrap()
}

async fn remove(cluster: &Cluster, log: &str) -> Result<()> {
    Log::remove(cluster.env.clone(), name(log)).await
}

fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}

#[tokio::test(start_paused = true)]
async fn a_removed_log_is_gone_and_its_name_is_free() {
    let cluster = Cluster::new(2, 2).await;
    let old = cluster.filled("l", 20).await;
    let other = cluster.filled("other", 3).await;
    remove(&cluster, "l").await.unwrap();
    assert_eq!(cluster.env.views.names().await.unwrap(), [name("other")]);
    assert_eq!(kind(Log::open(cluster.env.clone(), name("l")).await), ErrorKind::NotFound);
    assert_eq!(kind(remove(&cluster, "l").await), ErrorKind::NotFound);
    assert_eq!(kind(remove(&cluster, "never").await), ErrorKind::NotFound);
    assert_eq!(cluster.entries().await, 3, "of the other log");

    let new = cluster.create("l", of_slots(4)).await;
    assert_eq!(new.append("new").await.unwrap(), 0);
    assert_eq!(kind(old.append("late").await), ErrorKind::NotFound);
    assert_eq!(kind(old.read(0).await), ErrorKind::NotFound);
    assert_eq!(kind(old.tail().await), ErrorKind::NotFound);
    assert_eq!(kind(old.trim_to(0).await), ErrorKind::NotFound);
    assert_eq!(new.read(0).await.unwrap(), Entry::Data(Bytes::from_static(b"new")));
    assert_eq!(new.tail().await.unwrap(), 1);
    assert_eq!(other.tail().await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn positions_of_a_sequencer_that_missed_the_removal_cannot_be_used() {
    let cluster = Cluster::new(2, 2).await;
    let old = cluster.filled("l", 3).await;
    let sequencer = cluster.sequencer_of(&old).await;
    cluster.kill_node(sequencer);
    remove(&cluster, "l").await.unwrap();
    let new = cluster.create("l", of_slots(4)).await;
    // The node is back, with nothing in memory. In the old view it is the sequencer.
    cluster.start_node(sequencer);
    assert_eq!(kind(old.append("late").await), ErrorKind::NotFound);
    assert_eq!(new.append("new").await.unwrap(), 0);
    assert_eq!(cluster.entries().await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_append_in_flight_fails_when_its_log_is_removed() {
    let cluster = Cluster::new(1, 1).await;
    let old = cluster.filled("l", 3).await;
    let target = cluster.target(0);
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let appending = tokio::spawn({
        let old = old.clone();
        async move { old.append("late").await }
    });
    target.wait_until_held(1).await;
    remove(&cluster, "l").await.unwrap();
    target.release(1);
    assert_eq!(kind(appending.await.unwrap()), ErrorKind::NotFound);
    assert_eq!(cluster.entries().await, 0);
}

/// The first `count` requests succeed, the next meets `fault`, and all later ones fail.
fn dying_after(asked: &Arc<AtomicUsize>, count: usize, fault: Fault) -> FaultPlan {
    let asked = asked.clone();
    Box::new(move |operation| match operation {
        Operation::Submit(_) => match asked.fetch_add(1, Ordering::SeqCst) {
            before if before < count => None,
            before if before == count => Some(fault),
            _ => Some(Fault::FailBefore),
        },
        _ => None,
    })
}

/// Removes a log through a client that dies after `count` requests. Returns whether the client
/// died, that is, whether the removal needs more requests.
async fn removed_by_a_mortal(cluster: &Cluster, log: &str, count: usize, fault: Fault) -> bool {
    let asked = Arc::new(AtomicUsize::new(0));
    cluster.system.follow(dying_after(&asked, count, fault));
    cluster.targets.values().for_each(|one| one.follow(dying_after(&asked, count, fault)));
    let mut env = cluster.env.clone();
    env.patience = Patience { operation: LAST_PATIENCE, ..env.patience };
    let outcome = Log::remove(env, name(log)).await;
    cluster.system.heal();
    cluster.targets.values().for_each(|one| one.heal());
    let died = asked.load(Ordering::SeqCst) > count;
    assert!(died || outcome.is_ok(), "{outcome:?}");
    died
}

#[tokio::test(start_paused = true)]
async fn the_next_client_finishes_a_removal_that_died_at_any_request() {
    let cluster = Cluster::new(2, 1).await;
    let mut deaths = 0;
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        for count in 0.. {
            let log = format!("{fault:?}-{count}");
            let old = cluster.filled(&log, 9).await;
            let died = removed_by_a_mortal(&cluster, &log, count, fault).await;
            match cluster.env.views.current(&name(&log)).await.unwrap() {
                Some(_) => {
                    let kept = old.read(8).await.unwrap();
                    assert_eq!(kept, Entry::Data(Bytes::from_static(b"record 8")), "{log}");
                    remove(&cluster, &log).await.unwrap();
                }
                // A client that removes the log again continues the removal, unless nothing is left
                // to do.
                None if count % 2 == 0 => {
                    let again = remove(&cluster, &log).await;
                    assert!(again.is_ok() || kind(again) == ErrorKind::NotFound, "{log}");
                }
                // A client that creates a log of the same name continues the removal too.
                None => {}
            }
            let new = cluster.create(&log, of_slots(4)).await;
            assert_eq!(new.append("new").await.unwrap(), 0, "{log}");
            assert_eq!(kind(old.append("late").await), ErrorKind::NotFound, "{log}");
            assert_eq!(cluster.entries().await, 1, "{log}");
            remove(&cluster, &log).await.unwrap();
            assert_eq!(cluster.entries().await, 0, "{log}");
            if !died {
                break;
            }
            deaths += 1;
        }
    }
    assert!(deaths > 20, "there are as many requests: {deaths}");
}
