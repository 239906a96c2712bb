//! Tests how long clients wait. Time is virtual, so only waiting takes time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use nacre_conformance::Fault;
use nacre_conformance::wait::within_deadline;
use nacre_log::{Entry, Log, Patience};
use nacre_object::ErrorKind;
use tokio::time::timeout;

use crate::bed;
use crate::suite::faults::{on_method, records_of};
use crate::support::reader::env_of_reader;
use crate::support::{Cluster, of_slots};

#[tokio::test(start_paused = true)]
async fn a_hole_delays_only_followers_and_only_briefly() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    log.append("first").await.unwrap();
    let slow = cluster.open("l").await;
    let target = cluster.target_of_position(&log, 1);
    let target = cluster.target(target);
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let appending = tokio::spawn(async move { slow.append("slow").await });
    target.wait_until_held(1).await;

    let started = tokio::time::Instant::now();
    assert_eq!(log.append("third").await.unwrap(), 2);
    assert_eq!(log.read(2).await.unwrap(), Entry::Data("third".into()));
    assert_eq!(log.read(1).await.map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    assert!(started.elapsed() < Duration::from_millis(5), "{:?}", started.elapsed());

    let followers = [log.follow(0), cluster.open("l").await.follow(0)];
    let followed = join_all(followers.map(|follow| follow.take(3).collect::<Vec<_>>())).await;
    let waited = started.elapsed();
    assert!(waited >= Patience::default().hole && waited < Duration::from_secs(1), "{waited:?}");
    for entries in followed {
        let entries: Vec<_> = entries.into_iter().map(|entry| entry.unwrap().1).collect();
        let expected = [Entry::Data("first".into()), Entry::Filled, Entry::Data("third".into())];
        assert_eq!(entries, expected);
    }
    target.release(1);
    assert_eq!(appending.await.unwrap().unwrap(), 3);
    assert_eq!(records_of(&log).await, ["first", "third", "slow"]);
}

/// The test above would fail if followers waited longer than the bound of `Patience::hole`.
#[tokio::test(start_paused = true)]
async fn the_checker_finds_a_follower_that_does_not_fill_holes() {
    let planted = Patience { hole: Duration::from_secs(5), ..Patience::default() };
    let cluster = Cluster::patient(3, 1, planted).await;
    let log = cluster.create("l", of_slots(100)).await;
    let slow = cluster.open("l").await;
    let target = cluster.target_of_position(&log, 0);
    let target = cluster.target(target);
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let appending = tokio::spawn(async move { slow.append("slow").await });
    target.wait_until_held(1).await;
    let mut follow = log.follow(0);
    assert!(timeout(Duration::from_secs(1), follow.next()).await.is_err(), "the hole is filled");
    target.release(1);
    appending.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_waits_without_a_sequencer_asks_rarely() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    cluster.system.follow(Box::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    }));
    let reader = Log::open(env_of_reader(&cluster, "l"), log.name().clone()).await.unwrap();
    let mut follow = reader.follow(0);
    let nothing = timeout(Duration::from_secs(20), follow.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let asked = asked.load(Ordering::Relaxed);
    assert!((10..200).contains(&asked), "{asked} requests in 20 s");
    log.append("first").await.unwrap();
    assert_eq!(
        within_deadline("what is told next", follow.next()).await.unwrap().unwrap(),
        (0, Entry::Data("first".into()))
    );
}
