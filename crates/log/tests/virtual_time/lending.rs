//! Tests of the sequencer's capability: a client that is alone with its log issues the positions
//! itself, and gives the capability up when other clients come.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use nacre_conformance::Fault;
use nacre_log::view::Layout;
use nacre_log::{Entry, Log, Reconfiguration};
use tokio::time::{Instant, sleep, timeout};

use crate::bed;
use crate::suite::faults::on_method;
use crate::support::checker::Checker;
use crate::support::policies::{TURN, TURN_OPERATIONS};
use crate::support::{Cluster, node, of_slots};

/// Appends until the handle issues positions itself.
async fn alone_with(cluster: &Cluster, log: &Log) {
    for _ in 0..20 {
        log.append("alone").await.unwrap();
    }
    let before = cluster.questions();
    log.append("alone").await.unwrap();
    assert_eq!(cluster.questions(), before, "an append of a lone client is one exchange");
}

#[tokio::test(start_paused = true)]
async fn a_lone_client_appends_without_asking_the_sequencer() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let taken = log.take_positions(3).await.unwrap();
    assert_eq!((taken.start, taken.end), (21, 24));
    assert_eq!(cluster.open("l").await.tail().await.unwrap(), 24);
}

#[tokio::test(start_paused = true)]
async fn two_clients_that_take_turns_ask_the_sequencer_and_lose_nothing() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let epoch = log.view().epoch();
    let other = cluster.open("l").await;
    let checker = Checker::default();
    for n in 0..50 {
        checker.append(&log, format!("a{n}")).await.unwrap();
        checker.append(&other, format!("b{n}")).await.unwrap();
    }
    assert_eq!(log.tail().await.unwrap(), 121);
    assert_eq!(log.view().epoch(), epoch, "the holder returned it, and was not evicted");
    // Alone again, it has the capability again.
    for n in 0..30 {
        log.append(format!("c{n}")).await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    alone_with(&cluster, &log).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_evicted_and_no_client_waits_long() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    // Nothing it asks or answers arrives any more.
    cluster.cut_holder_off();
    let other = cluster.open("l").await;
    let started = Instant::now();
    assert_eq!(other.append("other").await.unwrap(), 21);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_a_replaced_sequencer_asks_the_successor_for_the_tail() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    // Its lease lasts, and it has not heard of the successor.
    cluster.cut_holder_off();
    let other = cluster.open("l").await;
    other.seal().await.unwrap();
    assert_eq!(log.tail().await.unwrap(), 21);
    let position = other.append("other").await.unwrap();
    assert_eq!(log.tail().await.unwrap(), position + 1);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_appends_at_positions_that_nobody_else_has() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    let checker = Checker::default();
    alone_with(&cluster, &log).await;
    let target = cluster.target(cluster.target_of_position(&log, 21));
    target.follow(on_method(bed::WRITES, Fault::Hold, 1));
    let late = {
        let (log, checker) = (log.clone(), checker.clone());
        tokio::spawn(async move { checker.append(&log, "late".into()).await })
    };
    target.wait_until_held(1).await;
    cluster.cut_holder_off();
    let other = cluster.open("l").await;
    checker.append(&other, "other".into()).await.unwrap();
    cluster.reconnect();
    target.release(1);
    late.await.unwrap().unwrap();
    for n in 0..20 {
        checker.append(&log, format!("a{n}")).await.unwrap();
        checker.append(&other, format!("b{n}")).await.unwrap();
    }
    let records: Vec<_> = log.read_range(21, 100).await.unwrap();
    let data = records.iter().filter(|slot| matches!(slot.entry, Some(Entry::Data(_))));
    assert_eq!(data.count(), 42);
}

#[tokio::test(start_paused = true)]
async fn a_follower_sees_a_record_of_a_lone_client_at_once() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let mut follow = cluster.open("l").await.follow(21);
    for n in 21..60 {
        let appended = log.append(format!("{n}")).await.unwrap();
        assert_eq!(appended, n);
        let next = timeout(Duration::from_millis(10), follow.next()).await;
        let told = next.unwrap_or_else(|_| panic!("record {n} is not told")).unwrap().unwrap();
        assert_eq!(told, (n, Entry::Data(format!("{n}").into())));
        sleep(Duration::from_millis(n)).await;
    }
    assert!(cluster.questions() > 0);
}

#[tokio::test(start_paused = true)]
async fn a_layout_and_a_move_take_the_capability_back_first() {
    let cluster = Cluster::new(3, 2).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let other = cluster.open("l").await;
    let layout = Some(Layout { width: 2, slots: 700 });
    other.reconfigure(Reconfiguration::Relayout { layout, avoid: vec![] }).await.unwrap();
    assert_eq!(log.append("in the new layout").await.unwrap(), 21);
    assert_eq!(other.read(21).await.unwrap(), Entry::Data("in the new layout".into()));
    for _ in 0..20 {
        log.append("again").await.unwrap();
    }
    let to = 1 - cluster.sequencer_of(&log).await;
    other.move_sequencer(node(to)).await.unwrap();
    let at = log.append("moved").await.unwrap();
    assert_eq!(other.tail().await.unwrap(), at + 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handle_delays_no_client() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let other = cluster.open("l").await;
    let epoch = other.view().epoch();
    drop(log);
    assert_eq!(other.append("other").await.unwrap(), 21);
    assert_eq!(other.view().epoch(), epoch, "nobody was evicted");
}

#[tokio::test(start_paused = true)]
async fn tails_are_reported_in_order_while_the_capability_changes_hands() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(100)).await;
    let checker = Checker::default();
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let clients = (0..3).map(async |client: u64| {
        let log = cluster.open("l").await;
        for n in 0..60 {
            let at = checker.append(&log, format!("{client}:{n}")).await.unwrap();
            acknowledged.fetch_max(at as usize, Ordering::SeqCst);
            // Now and then it is alone for some time.
            sleep(Duration::from_millis(if n % 20 == 0 { 1500 * client } else { 3 })).await;
        }
    });
    let reading = async {
        let reader = cluster.open("l").await;
        for _ in 0..200 {
            let before = acknowledged.load(Ordering::SeqCst);
            let tail = reader.tail().await.unwrap();
            assert!(before == 0 || tail as usize > before, "{tail} after {before}");
            sleep(Duration::from_millis(20)).await;
        }
    };
    let ((), _) = tokio::join!(reading, join_all(clients));
    checker.check(&log).await;
}

/// Makes one of the tests' policies decide about the log's capability.
async fn lend_by(log: &Log, policy: &str) {
    let policy = Some(policy.parse().unwrap());
    log.reconfigure(Reconfiguration::Capability(policy)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn busy_clients_that_alternate_send_one_request_per_grant() {
    const RECORDS: u64 = 200;
    let cluster = Cluster::new(3, 1).await;
    let one = cluster.create("l", of_slots(1000)).await;
    lend_by(&one, "turns").await;
    let other = cluster.open("l").await;
    for log in [&one, &other] {
        // So busy that they ask for the capability.
        for _ in 0..20 {
            log.append("begin").await.unwrap();
        }
    }
    let before = cluster.questions();
    let checker = Checker::default();
    let append_all = async |log: &Log, name: &str| {
        for n in 0..RECORDS {
            checker.append(log, format!("{name}{n}")).await.unwrap();
        }
    };
    tokio::join!(append_all(&one, "a"), append_all(&other, "b"));
    let turns = 2 * RECORDS / TURN_OPERATIONS;
    let asked = cluster.questions() - before;
    assert!(asked <= turns + 2, "{asked} questions in {turns} turns");
    assert_eq!(one.stat().await.unwrap().tail, 40 + 2 * RECORDS);
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_new_policy_grants_nothing_returns_its_capability() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    let other = cluster.open("l").await;
    lend_by(&other, "never").await;
    // The holder hears of it when it asks for news.
    sleep(Duration::from_millis(300)).await;
    for _ in 0..10 {
        let before = cluster.questions();
        log.append("by a round trip").await.unwrap();
        assert_eq!(cluster.questions(), before + 1);
    }
    lend_by(&other, "best_effort").await;
    sleep(Duration::from_secs(2)).await;
    alone_with(&cluster, &log).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_keeps_its_capability_when_its_new_policy_grants_it() {
    let cluster = Cluster::new(3, 1).await;
    let log = cluster.create("l", of_slots(1000)).await;
    alone_with(&cluster, &log).await;
    lend_by(&cluster.open("l").await, "another_best_effort").await;
    sleep(Duration::from_millis(300)).await;
    let before = cluster.questions();
    log.append("alone").await.unwrap();
    assert_eq!(cluster.questions(), before);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_at_most_the_time_that_the_policy_gives_a_holder() {
    let cluster = Cluster::new(3, 1).await;
    let holder = cluster.create("l", of_slots(1000)).await;
    lend_by(&holder, "turns").await;
    for _ in 0..20 {
        holder.append("begin").await.unwrap();
    }
    // The grant is for ten operations. Some are left, so the holder keeps it for its time.
    holder.append("another").await.unwrap();
    let other = cluster.open("l").await;
    let started = Instant::now();
    other.append("other").await.unwrap();
    let waited = started.elapsed();
    assert!(waited <= TURN + Duration::from_millis(10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_wait_for_a_holder_that_used_up_its_operations() {
    let cluster = Cluster::new(3, 1).await;
    let holder = cluster.create("l", of_slots(1000)).await;
    lend_by(&holder, "turns").await;
    // A client that has used up its grant asks again, so the count of requests shows when.
    for _ in 0..20 {
        holder.append("begin").await.unwrap();
    }
    let asked = cluster.questions();
    while cluster.questions() == asked {
        holder.append("until it asks again").await.unwrap();
    }
    for _ in 1..TURN_OPERATIONS {
        holder.append("the rest of its turn").await.unwrap();
    }
    sleep(Duration::from_millis(5)).await;
    let other = cluster.open("l").await;
    let started = Instant::now();
    other.append("other").await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(5), "{:?}", started.elapsed());
}
