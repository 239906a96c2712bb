//! The log as its users see it, on a cluster in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::checker::Checker;
use crate::support::{Cluster, class, of_slots};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use nacre_conformance::wait::within_deadline;
use nacre_log::{
    BRADOS_CLASS, ClassVersions, Entry, Log, LogName, LogOptions, NATIVE_CLASS, PROGRAM_CLASS,
    Reconfiguration,
};
use nacre_object::{ClassName, ErrorKind, Result};

fn data(text: &str) -> Entry {
    Entry::Data(Bytes::copy_from_slice(text.as_bytes()))
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[tokio::test(start_paused = true)]
async fn a_new_log_is_empty_and_an_append_returns_the_old_tail() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", LogOptions::default()).await;
    assert_eq!(log.tail().await.unwrap(), 0);
    for n in 0..10 {
        assert_eq!(log.append(format!("record {n}")).await.unwrap(), n);
        assert_eq!(log.tail().await.unwrap(), n + 1);
    }
    assert_eq!(log.read(3).await.unwrap(), data("record 3"));
    assert_eq!(kind(log.read(10).await), Some(ErrorKind::NotFound));
    assert_eq!(kind(log.read(1 << 40).await), Some(ErrorKind::NotFound));
}

#[tokio::test(start_paused = true)]
async fn a_log_is_created_once_and_found_by_its_name() {
    let cluster = Cluster::new(3, 1).await;
    let name = LogName::new("l").unwrap();
    assert_eq!(kind(Log::open(cluster.env.clone(), name.clone()).await), Some(ErrorKind::NotFound));
    let log = cluster.create("l", of_slots(8)).await;
    log.append("a").await.unwrap();
    let again = Log::create(cluster.env.clone(), name.clone(), of_slots(8)).await;
    assert_eq!(kind(again), Some(ErrorKind::Exists));
    assert_eq!(cluster.open("l").await.read(0).await.unwrap(), data("a"));
    assert_eq!(cluster.env.views.names().await.unwrap(), [name]);
}

#[tokio::test(start_paused = true)]
async fn a_log_out_of_bounds_is_refused() {
    let cluster = Cluster::new(3, 1).await;
    for options in [of_slots(0), of_slots(u32::MAX), LogOptions { width: Some(0), ..of_slots(8) }] {
        let created = Log::create(cluster.env.clone(), LogName::new("l").unwrap(), options).await;
        assert_eq!(kind(created), Some(ErrorKind::Invalid));
    }
    let log = cluster.create("l", of_slots(8)).await;
    let huge = vec![0; nacre_log::limits::MAX_RECORD_BYTES + 1];
    assert_eq!(kind(log.append(&huge).await), Some(ErrorKind::Invalid));
    let position = log.append(&huge[1..]).await.unwrap();
    assert_eq!(log.read(position).await.unwrap(), Entry::Data(huge[1..].to_vec().into()));
}

#[tokio::test(start_paused = true)]
async fn a_read_distinguishes_filled_trimmed_and_unwritten_positions() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(8)).await;
    log.append("a").await.unwrap();
    assert_eq!(kind(log.fill(0).await), Some(ErrorKind::Exists));
    log.trim(0).await.unwrap();
    log.fill(0).await.unwrap();
    assert_eq!(log.read(0).await.unwrap(), Entry::Trimmed);
    log.fill(1).await.unwrap();
    log.fill(1).await.unwrap();
    assert_eq!(log.read(1).await.unwrap(), Entry::Filled);
    log.trim(1).await.unwrap();
    assert_eq!(log.read(1).await.unwrap(), Entry::Trimmed);
    for past in [kind(log.fill(9).await), kind(log.trim(9).await), kind(log.trim_to(2).await)] {
        assert_eq!(past, Some(ErrorKind::Invalid));
    }
}

#[tokio::test(start_paused = true)]
async fn trimming_or_filling_the_tail_makes_the_next_append_skip_it() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(8)).await;
    log.append("a").await.unwrap();
    log.trim(1).await.unwrap();
    assert_eq!(log.append("b").await.unwrap(), 2);
    log.fill(3).await.unwrap();
    assert_eq!(log.append("c").await.unwrap(), 4);
    log.trim(5).await.unwrap();
    assert_eq!(log.seal().await.unwrap(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_adjacent_and_in_order() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    log.append("first").await.unwrap();
    let records: Vec<_> = (0..500).map(|n| Bytes::from(format!("{n}"))).collect();
    let positions = log.append_batch(&records).await;
    let positions: Vec<_> = positions.into_iter().map(Result::unwrap).collect();
    assert_eq!(positions, (1..501).collect::<Vec<u64>>());
    let slots = log.read_range(1, 500).await.unwrap();
    for (slot, record) in slots.iter().zip(&records) {
        assert_eq!(slot.entry, Some(Entry::Data(record.clone())));
    }
    assert!(log.append_batch(&[]).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_range_read_ends_at_the_tail_and_shows_holes() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(8)).await;
    log.append_batch(&[Bytes::from("a"), Bytes::from("b")]).await;
    log.trim(0).await.unwrap();
    let slots = log.read_range(0, 100).await.unwrap();
    let entries: Vec<_> = slots.into_iter().map(|slot| slot.entry).collect();
    assert_eq!(entries, [Some(Entry::Trimmed), Some(data("b"))]);
    assert!(log.read_range(2, 100).await.unwrap().is_empty());
    assert!(log.read_range(0, 0).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_long_range_of_large_records_comes_in_pieces() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    let record = Bytes::from(vec![7; 512 * 1024]);
    let records = vec![record; 32];
    let appended = log.append_batch(&records).await;
    assert!(appended.iter().all(Result::is_ok), "{appended:?}");
    let mut next = 0;
    let mut pieces = 0;
    while next < 32 {
        let slots = log.read_range(next, 100).await.unwrap();
        assert!(slots.iter().all(|slot| slot.entry.is_some()));
        assert_eq!(slots[0].position, next);
        next += slots.len() as u64;
        pieces += 1;
    }
    assert!(pieces > 1);
}

async fn append_from_many(cluster: &Cluster, checker: &Checker, writers: usize, records: usize) {
    let tasks = (0..writers).map(|writer| {
        let (env, checker) = (cluster.env.clone(), checker.clone());
        tokio::spawn(async move {
            let log = Log::open(env, LogName::new("l").unwrap()).await.unwrap();
            for n in 0..records {
                checker.append(&log, format!("{writer}:{n}")).await;
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn many_writers_share_one_order_on_every_class() {
    for class_name in [NATIVE_CLASS, PROGRAM_CLASS, BRADOS_CLASS] {
        let cluster = Cluster::new(3, 1).await;
        let options = LogOptions { class: class(class_name), slots: 20, ..LogOptions::default() };
        let log = cluster.create("l", options).await;
        let checker = Checker::default();
        append_from_many(&cluster, &checker, 8, 50).await;
        assert_eq!(checker.acknowledged(), 400);
        checker.check(&log).await;
        assert_eq!(log.tail().await.unwrap(), 400);
    }
}

#[tokio::test(start_paused = true)]
async fn stripes_are_added_before_they_are_needed() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(4)).await;
    for n in 0..100 {
        assert_eq!(log.append(format!("{n}")).await.unwrap(), n);
    }
    let stat = log.stat().await.unwrap();
    assert_eq!((stat.ranges, stat.width, stat.tail), (1, 3, 100));
    assert_eq!(stat.objects, 100u64.div_ceil(12) * 3);
    for n in 0..100 {
        assert_eq!(log.read(n).await.unwrap(), data(&format!("{n}")));
    }
}

#[tokio::test(start_paused = true)]
async fn entries_are_spread_evenly_over_the_targets() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    log.append("a").await.unwrap();
    let targets: Vec<_> = (0..6).map(|p| cluster.target_of_position(&log, p)).collect();
    let mut first = targets[..3].to_vec();
    first.sort_unstable();
    assert_eq!(first, [0, 1, 2]);
    assert_eq!(targets[..3], targets[3..]);
}

#[tokio::test(start_paused = true)]
async fn a_trim_is_visible_at_once_and_frees_the_space() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(4)).await;
    let other = cluster.open("l").await;
    for n in 0..100 {
        log.append(format!("{n}")).await.unwrap();
    }
    log.trim_to(66).await.unwrap();
    for position in 0..100 {
        let expected = if position <= 66 { Entry::Trimmed } else { data(&format!("{position}")) };
        assert_eq!(other.read(position).await.unwrap(), expected, "{position}");
        assert_eq!(log.read(position).await.unwrap(), expected, "{position}");
    }
    assert_eq!(cluster.entries().await, 33);
    // Stripes of 12 positions: 0..60 are whole.
    assert_eq!(log.stat().await.unwrap().kept_from, 60);
    assert_eq!(other.first_readable().await.unwrap(), 67);
    log.trim_to(10).await.unwrap();
    assert_eq!(log.read(67).await.unwrap(), data("67"));
    other.fill(5).await.unwrap();
    other.trim(5).await.unwrap();
    assert_eq!(other.append("next").await.unwrap(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_trimmed_wholly_keeps_its_tail_through_recovery() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(4)).await;
    for n in 0..24 {
        log.append(format!("{n}")).await.unwrap();
    }
    log.trim_to(23).await.unwrap();
    assert_eq!(log.seal().await.unwrap(), 24);
    cluster.kill_node(cluster.sequencer_of(&log).await);
    assert_eq!(cluster.open("l").await.append("next").await.unwrap(), 24);
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_existing_entries_and_then_new_ones() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(10)).await;
    for n in 0..50 {
        log.append(format!("{n}")).await.unwrap();
    }
    let mut follow = cluster.open("l").await.follow(20);
    for n in 20..50 {
        assert_eq!(
            within_deadline("what is told next", follow.next()).await.unwrap().unwrap(),
            (n, data(&format!("{n}")))
        );
    }
    let waiting = tokio::spawn(async move {
        within_deadline("what is told next", follow.next()).await.unwrap().unwrap()
    });
    log.append("new").await.unwrap();
    assert_eq!(waiting.await.unwrap(), (50, data("new")));
}

#[tokio::test(start_paused = true)]
async fn the_class_of_a_log_is_replaced_under_its_writers() {
    let cluster = Cluster::new(3, 1).await;
    let options = LogOptions { class: class(NATIVE_CLASS), ..of_slots(20) };
    let log = cluster.create("l", options).await;
    let checker = Checker::default();
    let change = async {
        for class_name in [PROGRAM_CLASS, NATIVE_CLASS, PROGRAM_CLASS] {
            log.reconfigure(Reconfiguration::Class(class(class_name))).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(append_from_many(&cluster, &checker, 4, 50), change);
    assert_eq!(checker.acknowledged(), 200);
    checker.check(&log).await;
    assert_eq!(log.stat().await.unwrap().class, class(PROGRAM_CLASS));
    let refused = log.reconfigure(Reconfiguration::Class(class(BRADOS_CLASS))).await;
    assert_eq!(kind(refused), Some(ErrorKind::Invalid), "it stores otherwise");
}

#[tokio::test(start_paused = true)]
async fn a_log_is_laid_out_anew_from_the_tail_on() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", LogOptions { width: Some(1), ..of_slots(100) }).await;
    log.append_batch(&vec![Bytes::from("x"); 7]).await;
    let layout = nacre_log::view::Layout { width: 6, slots: 5 };
    let change = Reconfiguration::Relayout { layout: Some(layout), avoid: vec![] };
    log.reconfigure(change).await.unwrap();
    assert_eq!(log.append("y").await.unwrap(), 7);
    let view = log.view();
    let ends: Vec<_> = view.ranges().iter().map(|range| (range.first, range.end)).collect();
    assert_eq!(ends, [(0, 7), (7, 37)]);
    assert_eq!((log.read(6).await.unwrap(), log.read(7).await.unwrap()), (data("x"), data("y")));
}

/// Names a class version that the node does not have, until the node has refused a dozen calls.
/// Then names the right version.
#[derive(Debug)]
struct OldVersion(AtomicUsize);

#[async_trait]
impl ClassVersions for OldVersion {
    fn version(&self, _: &ClassName) -> Option<u64> {
        // It acts like a node that is still behind when the client asks again.
        Some(if self.0.load(Ordering::SeqCst) < 12 { 7 } else { 1 })
    }

    async fn refresh(&self, _: &ClassName) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_another_version_of_the_class_is_repeated() {
    let mut cluster = Cluster::new(3, 1).await;
    cluster.create("l", LogOptions::default()).await.append("a").await.unwrap();
    let versions = Arc::new(OldVersion(AtomicUsize::new(0)));
    cluster.env.classes = versions.clone();
    let log = cluster.open("l").await;
    assert_eq!(log.append("b").await.unwrap(), 1);
    assert_eq!(versions.0.load(Ordering::SeqCst), 12);
}
