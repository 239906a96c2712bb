//! Tests that a node sends the watchers of a map the changes of the map.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::{name, store};
use futures::future::join_all;
use nacre_conformance::faults::{FaultPlan, Operation, no_faults};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{Fault, FaultyStore, MemoryStore};
use nacre_object::{ClassCall, ObjectId, Op, OpResult, Request, Stack, Store, Watch};
use nacre_registry::{Change, ChangeFeed, MapEvent, MapWatcher, Maps};

/// Tests pause the clock, so a moment takes no time.
const MOMENT: Duration = Duration::from_millis(10);

fn reads_history(operation: &Operation<'_>) -> bool {
    let Operation::Submit(request) = operation else { return false };
    matches!(&request.ops[..], [Op::Call(call)] if call.method.as_str() == "history")
}

/// Counts how often history is read.
fn counting(reads: &Arc<AtomicUsize>) -> FaultPlan {
    let reads = Arc::clone(reads);
    Box::new(move |operation| {
        if reads_history(&operation) {
            reads.fetch_add(1, Ordering::Relaxed);
        }
        None
    })
}

/// Makes a node with a change feed. `plan` says which reads of the change feed fail. Returns the
/// maps as the node's clients see them, and the number of times that clients read a history.
fn node(store: &MemoryStore, plan: FaultPlan) -> (Maps, Arc<AtomicUsize>) {
    let own = FaultyStore::over_watched(Arc::new(store.clone()));
    own.follow(plan);
    let feed = Stack::new(own).wrapped_by(ChangeFeed::new);
    let (session, reads) = (FaultyStore::over_watched(Arc::new(store.clone())), Arc::default());
    session.follow(counting(&reads));
    (Maps::new(Arc::new(session), Arc::new(feed)), reads)
}

async fn next_epochs(watchers: &mut [MapWatcher]) -> Vec<u64> {
    let next = watchers.iter_mut().map(|watcher| async {
        within_deadline("what is told next", watcher.next()).await.unwrap().epoch()
    });
    join_all(next).await
}

/// Returns ten watchers that have received two changes. The change feed sent them the second
/// change, so it knows from then on which epoch it sent last.
async fn watchers(maps: &Maps, writer: &Maps, map: &str) -> Vec<MapWatcher> {
    writer.apply(&name(map), vec![Change::set("k", "1")]).await.unwrap();
    let mut watchers: Vec<_> = (0..10).map(|_| maps.watch(&name(map), 0)).collect();
    assert_eq!(next_epochs(&mut watchers).await, [1; 10]);
    let (second, ()) = tokio::join!(next_epochs(&mut watchers), async {
        tokio::task::yield_now().await;
        writer.apply(&name(map), vec![Change::set("k", "2")]).await.unwrap();
    });
    assert_eq!(second, [2; 10]);
    watchers
}

#[tokio::test(start_paused = true)]
async fn one_read_serves_all_watchers_of_a_map() {
    for map in ["pools", "secret"] {
        let store = store();
        let own_reads = Arc::new(AtomicUsize::new(0));
        let (maps, reads) = node(&store, counting(&own_reads));
        let writer = common::maps(&store);
        let mut watchers = watchers(&maps, &writer, map).await;
        let before = reads.load(Ordering::Relaxed);
        let own_before = own_reads.load(Ordering::Relaxed);
        for value in ["3", "4"] {
            let epoch = writer.apply(&name(map), vec![Change::set("k", value)]).await.unwrap();
            assert_eq!(next_epochs(&mut watchers).await, [epoch; 10]);
        }
        assert_eq!(reads.load(Ordering::Relaxed), before, "no watcher of {map} had to read");
        assert_eq!(own_reads.load(Ordering::Relaxed), own_before + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_of_an_uncommon_map_read_a_long_record_themselves() {
    let store = store();
    let (maps, reads) = node(&store, no_faults());
    let writer = common::maps(&store);
    let mut watchers = watchers(&maps, &writer, "secret").await;
    let before = reads.load(Ordering::Relaxed);
    let long = "v".repeat(5000);
    writer.apply(&name("secret"), vec![Change::set("k", long)]).await.unwrap();
    assert_eq!(next_epochs(&mut watchers).await, [3; 10]);
    assert!(reads.load(Ordering::Relaxed) >= before + 10);
}

/// The reply of a map's history with the map's third change.
async fn third_record(store: &MemoryStore, object: &ObjectId) -> Bytes {
    // As protocol-buffer messages: after epoch 2, at most 1.
    let input = Bytes::from_static(&[0x08, 2, 0x10, 1]);
    let (class, method) = ("map".parse().unwrap(), "history".parse().unwrap());
    let call = Op::Call(ClassCall { class, method, version: None, input });
    let reply = store.submit(Request::new(object.clone(), vec![call]).unwrap()).await.unwrap();
    let [OpResult::Called(reply)] = &reply.results[..] else { panic!("{reply:?}") };
    reply.output.clone()
}

#[tokio::test(start_paused = true)]
async fn a_watcher_is_not_told_what_another_client_makes_up() {
    let (real, other) = (store(), store());
    let (maps, _) = node(&real, no_faults());
    let writer = common::maps(&real);
    let mut watchers = watchers(&maps, &writer, "secret").await;

    // The same map in another store, in which the third change differs.
    let forger = common::maps(&other);
    for value in ["1", "2", "forged"] {
        forger.apply(&name("secret"), vec![Change::set("k", value)]).await.unwrap();
    }
    let object = Maps::object(&name("secret"));
    real.notify(&object, third_record(&other, &object).await).await.unwrap();
    let value = Change::set("k", "true");
    writer.apply(&name("secret"), vec![value.clone()]).await.unwrap();
    for watcher in &mut watchers {
        let event = within_deadline("the true change", watcher.next()).await.unwrap();
        let MapEvent::Epoch(record) = event else { panic!("all of it is kept") };
        assert_eq!(record.changes, std::slice::from_ref(&value));
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_feed_that_cannot_read_sends_a_bare_notification() {
    let store = store();
    let plan = |operation: Operation<'_>| reads_history(&operation).then_some(Fault::FailBefore);
    let (maps, _) = node(&store, Box::new(plan));
    let writer = common::maps(&store);
    let mut watchers = watchers(&maps, &writer, "nodes").await;
    for epoch in 3..6 {
        writer.apply(&name("nodes"), vec![Change::set("k", epoch.to_string())]).await.unwrap();
        assert_eq!(next_epochs(&mut watchers).await, [epoch; 10]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_gets_every_epoch() {
    let store = store();
    let (maps, _) = node(&store, no_faults());
    let writer = common::maps(&store);
    let mut watchers = watchers(&maps, &writer, "programs").await;
    // More than wait for one watcher, each told apart.
    for value in 0..200 {
        writer.apply(&name("programs"), vec![Change::set("k", value.to_string())]).await.unwrap();
        tokio::task::yield_now().await;
    }
    for epoch in 3..=202 {
        let MapEvent::Epoch(record) =
            within_deadline("what is told next", watchers[0].next()).await.unwrap()
        else {
            panic!("all of it is kept")
        };
        assert_eq!(record.epoch, epoch);
    }
}

#[tokio::test(start_paused = true)]
async fn a_feed_ends_with_its_last_watcher_and_begins_again_with_the_next() {
    let store = store();
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&watches);
    let plan = move |operation: Operation<'_>| {
        if matches!(operation, Operation::Watch(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    };
    let (maps, _) = node(&store, Box::new(plan));
    let writer = common::maps(&store);
    let mut first = watchers(&maps, &writer, "nodes").await;
    assert_eq!(watches.load(Ordering::Relaxed), 1, "one watch of the store serves all");
    first.truncate(1);
    writer.apply(&name("nodes"), vec![Change::set("k", "3")]).await.unwrap();
    assert_eq!(next_epochs(&mut first).await, [3], "one watcher is left");
    drop(first);
    let began_again = async {
        loop {
            // Gives the feed time to notice that nobody watches.
            tokio::time::sleep(MOMENT).await;
            let mut watcher = maps.watch(&name("nodes"), 3);
            // A watcher begins to watch when it is asked for the next event.
            assert!(tokio::time::timeout(MOMENT, watcher.next()).await.is_err(), "nothing changes");
            if watches.load(Ordering::Relaxed) > 1 {
                return [watcher];
            }
        }
    };
    let mut others = within_deadline("the store is watched anew", began_again).await;
    writer.apply(&name("nodes"), vec![Change::set("k", "4")]).await.unwrap();
    assert_eq!(next_epochs(&mut others).await, [4]);
}
