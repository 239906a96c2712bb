//! Watching what happens to an object.

use nacre_object::{Capability, Op, OpResult, WatchEvent};

use super::Bench;
use super::watcher::notified;
use crate::ops::*;

checks![
    needs: &[Capability::WatchChanges], watches: true,
    a_watcher_hears_of_creation_changes_and_removal,
    a_watcher_hears_of_nothing_but_changes,
    a_watcher_hears_of_its_object_alone,
    changes_come_in_order_up_to_the_last,
    what_is_told_can_be_read,
];

fn changed(version: u64) -> WatchEvent {
    WatchEvent::Changed { version }
}

async fn a_watcher_hears_of_creation_changes_and_removal(bench: Bench) {
    let object = bench.object("a");
    let mut watcher = bench.watch(&object).await;
    for op in [create(), append("x"), map_set([("k", "v")]), set_attribute("a", "v"), truncate(0)] {
        let name = op.name();
        let version = object.replies([op]).await.version;
        assert_eq!(watcher.next().await, changed(version), "{name}");
    }
    object.does([Op::Remove]).await;
    assert_eq!(watcher.next().await, changed(0), "removal");
    let version = object.replies([create()]).await.version;
    assert_eq!(watcher.next().await, changed(version), "another life");
}

async fn a_watcher_hears_of_nothing_but_changes(bench: Bench) {
    let object = bench.object_with("a", [write(0, "x")]).await;
    let mut watcher = bench.watch(&object).await;
    object.does([read_all(), Op::Stat, map_range("", "", 9), ensure()]).await;
    object.refuses([append("y"), create()]).await;
    if bench.subject.has(Capability::Snapshots) {
        object.does([snapshot_create("s")]).await;
    }
    bench.notify(&object, "now").await.expect("notify");
    assert_eq!(watcher.next().await, notified("now"), "nothing has changed");
    let version = object.replies([append("y")]).await.version;
    assert_eq!(watcher.next().await, changed(version));
}

async fn a_watcher_hears_of_its_object_alone(bench: Bench) {
    let (object, other) = (bench.object("a"), bench.object("a2"));
    let mut watcher = bench.watch(&object).await;
    other.does([append("x")]).await;
    let version = object.replies([append("x")]).await.version;
    assert_eq!(watcher.next().await, changed(version));
}

async fn changes_come_in_order_up_to_the_last(bench: Bench) {
    let object = bench.object("a");
    let mut watchers = [bench.watch(&object).await, bench.watch(&object).await];
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let object = object.clone();
            tokio::spawn(async move {
                let mut last = 0;
                for _ in 0..50 {
                    last = object.replies([append("x")]).await.version;
                }
                last
            })
        })
        .collect();
    let mut last = 0;
    for task in tasks {
        last = last.max(task.await.expect("no task panics"));
    }
    for watcher in &mut watchers {
        watcher.reach(last).await;
    }
}

/// A watcher can read each version that an event names: no event arrives before its change is
/// visible.
async fn what_is_told_can_be_read(bench: Bench) {
    const CHANGES: u64 = 50;
    let object = bench.object("a");
    let mut watcher = bench.watch(&object).await;
    let writer = object.clone();
    let writer = tokio::spawn(async move {
        for _ in 0..CHANGES {
            writer.does([append("x")]).await;
        }
    });
    loop {
        let WatchEvent::Changed { version: told } = watcher.next().await else {
            panic!("only changes happen here")
        };
        let OpResult::Stat(found) = object.answers(Op::Stat).await else { panic!("no stat") };
        assert!(found.version >= told, "told of {told}, found {}", found.version);
        if found.size == CHANGES && found.version == told {
            break;
        }
    }
    writer.await.expect("the writer must not panic");
}
