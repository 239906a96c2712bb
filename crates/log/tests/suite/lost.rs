//! Tests of logs that lost objects with a storage target. Clients can read the remaining objects.
//! They never mistake a leftover object of an earlier log for part of a new log.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::{Cluster, of_slots};
use futures::StreamExt;
use nacre_log::{Entry, Log, LogName, LogOptions};
use nacre_object::{ErrorKind, ListRequest, ObjectId, Op, PoolName, Request};
use nacre_registry::Maps;

/// Stripes of three objects with four records each; the last stripe holds four records.
const RECORDS: u64 = 40;
const END_OF_LAST_STRIPE: u64 = 48;

/// Removes all objects of logs from a target, and restarts the nodes.
async fn lose_target(cluster: &Cluster, target: usize) {
    let pool = PoolName::new("log").unwrap();
    let (after, prefix) = (None, String::new());
    let request = ListRequest { pool: pool.clone(), after, prefix, limit: usize::MAX };
    for name in cluster.env.store.list(request).await.unwrap().names {
        let object = ObjectId::new(pool.clone(), name);
        if cluster.target_of(&object) == target {
            remove(&*cluster.env.store, object).await;
        }
    }
    cluster.start_node(0);
}

async fn remove(store: &dyn nacre_object::Store, object: ObjectId) {
    store.submit(Request::new(object, vec![Op::Remove]).unwrap()).await.unwrap();
}

async fn all_of(log: &Log) -> Vec<Entry> {
    let tail = log.tail().await.unwrap() as usize;
    let entries: Vec<_> = log.follow(0).take(tail).collect().await;
    entries.into_iter().map(|entry| entry.unwrap().1).collect()
}

#[tokio::test(start_paused = true)]
async fn a_log_that_lost_objects_can_be_read_filled_trimmed_and_appended_to() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", RECORDS).await;
    let lost = cluster.target_of_position(&log, 4);
    let is_lost = |position: u64| cluster.target_of_position(&log, position) == lost;
    lose_target(&cluster, lost).await;

    let again = cluster.open("l").await;
    for (position, entry) in (0..).zip(all_of(&again).await) {
        match entry {
            Entry::Data(data) => assert_eq!(data, format!("record {position}")),
            Entry::Lost => assert!(is_lost(position), "{position}"),
            // Nobody knows how far the last stripe was written, so the log continues after it.
            Entry::Filled => assert!(!is_lost(position) && position >= RECORDS, "{position}"),
            Entry::Trimmed => panic!("nobody trimmed {position}"),
        }
    }
    let range = again.read_range(0, 12).await.unwrap();
    assert_eq!(range.iter().filter(|slot| slot.entry == Some(Entry::Lost)).count(), 4);
    assert_eq!(again.read(4).await.unwrap(), Entry::Lost);
    again.fill(4).await.unwrap();
    again.trim(4).await.unwrap();
    assert_eq!(again.read(4).await.unwrap(), Entry::Lost);

    let tail = again.tail().await.unwrap();
    assert_eq!(tail, END_OF_LAST_STRIPE);
    assert_eq!(again.append("next").await.unwrap(), tail);
    assert_eq!(again.read(tail).await.unwrap(), Entry::Data("next".into()));
    again.trim_to(tail - 1).await.unwrap();
    assert_eq!(again.read(4).await.unwrap(), Entry::Trimmed);
    assert_eq!(again.first_readable().await.unwrap(), tail);
    cluster.start_node(0);
    assert_eq!(again.seal().await.unwrap(), tail + 1, "the next recovery skips nothing");
    Log::remove(cluster.env.clone(), again.name().clone()).await.unwrap();
    assert_eq!(cluster.entries().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_objects_were_all_lost_issues_no_position_again() {
    let cluster = Cluster::new(3, 1).await;
    let narrow = LogOptions { width: Some(1), ..of_slots(100) };
    let log = cluster.create("l", narrow).await;
    for record in 0..RECORDS {
        log.append(format!("record {record}")).await.unwrap();
    }
    lose_target(&cluster, cluster.target_of_position(&log, 0)).await;
    let again = cluster.open("l").await;
    assert_eq!(again.append("next").await.unwrap(), 100);
    let lost = again.read_range(0, RECORDS as usize).await.unwrap();
    assert!(lost.iter().all(|slot| slot.entry == Some(Entry::Lost)), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_new_log_avoids_a_target_that_is_silent() {
    let cluster = Cluster::new(3, 1).await;
    cluster.kill_target(1);
    let log = cluster.filled("l", RECORDS).await;
    let targets: BTreeSet<_> =
        (0..RECORDS).map(|position| cluster.target_of_position(&log, position)).collect();
    assert_eq!(targets, BTreeSet::from([0, 2]));
}

#[tokio::test(start_paused = true)]
async fn creating_a_log_waits_for_targets_while_none_answers() {
    let cluster = Cluster::new(3, 1).await;
    (0..3).for_each(|target| cluster.kill_target(target));
    let creating = cluster.create("l", LogOptions::default());
    let starting = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        (0..3).for_each(|target| cluster.revive_target(target));
    };
    let (log, ()) = tokio::join!(creating, starting);
    assert_eq!(log.append("first").await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn creating_a_log_without_any_target_ends_with_an_error() {
    let cluster = Cluster::new(3, 1).await;
    (0..3).for_each(|target| cluster.kill_target(target));
    let name = LogName::new("l").unwrap();
    let refused = Log::create(cluster.env.clone(), name, LogOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(refused.message().contains("no storage target answers"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_log_recreated_after_its_view_was_lost_finds_no_old_entries() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.filled("l", RECORDS).await;
    remove(&cluster.system, Maps::object(log.name().map())).await;
    cluster.start_node(0);
    let gone = Log::open(cluster.env.clone(), log.name().clone()).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);

    let made = cluster.filled("l", RECORDS).await;
    let records = (0..RECORDS).map(|n| Entry::Data(format!("record {n}").into()));
    assert!(records.eq(all_of(&made).await));
}
