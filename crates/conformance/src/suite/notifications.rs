//! Notifications: payloads sent to the watchers of an object.

use nacre_object::ErrorKind::Invalid;
use nacre_object::WatchEvent;
use nacre_object::limits::MAX_NOTIFY_BYTES;

use super::Bench;
use super::watcher::notified;
use crate::ops::*;

checks![
    needs: &[], watches: true,
    every_watcher_is_notified,
    notifications_come_in_order,
    notifications_have_a_bound,
    a_slow_watcher_learns_that_it_missed_some,
    a_dropped_watch_disturbs_nobody,
];

async fn every_watcher_is_notified(bench: Bench) {
    let present = bench.object_with("present", [create()]).await;
    for object in [present, bench.object("absent")] {
        bench.notify(&object, "to nobody").await.expect("nobody need watch");
        let mut watchers = [bench.watch(&object).await, bench.watch(&object).await];
        let mut elsewhere = bench.watch(&bench.object("elsewhere")).await;
        bench.notify(&object, "hello").await.expect("notify");
        bench.notify(&bench.object("elsewhere"), "there").await.expect("notify");
        for watcher in &mut watchers {
            assert_eq!(watcher.next().await, notified("hello"));
        }
        assert_eq!(elsewhere.next().await, notified("there"), "what another object was told");
    }
}

async fn notifications_come_in_order(bench: Bench) {
    let object = bench.object("a");
    let mut watcher = bench.watch(&object).await;
    for i in 0..200 {
        bench.notify(&object, format!("{i}")).await.expect("notify");
    }
    for i in 0..200 {
        assert_eq!(watcher.next().await, notified(format!("{i}")));
    }
}

async fn notifications_have_a_bound(bench: Bench) {
    let object = bench.object("a");
    let mut watcher = bench.watch(&object).await;
    let error = bench.notify(&object, vec![7; MAX_NOTIFY_BYTES + 1]).await.expect_err("too large");
    assert_eq!(error.kind(), Invalid, "{error}");
    bench.notify(&object, "").await.expect("nothing to say can be said");
    bench.notify(&object, vec![7; MAX_NOTIFY_BYTES]).await.expect("the largest");
    assert_eq!(watcher.next().await, notified(""));
    assert_eq!(watcher.next().await, notified(vec![7; MAX_NOTIFY_BYTES]));
}

/// Sends a watcher that does not read its events far more of them than any queue holds.
async fn a_slow_watcher_learns_that_it_missed_some(bench: Bench) {
    const TOLD: usize = 20_000;
    let object = bench.object("a");
    let mut watcher = bench.watch(&object).await;
    for i in 0..TOLD {
        bench.notify(&object, i.to_string()).await.expect("a slow watcher holds nobody up");
    }
    bench.notify(&object, "end").await.expect("notify");

    let (mut next, mut lost) = (0, false);
    loop {
        match watcher.next().await {
            WatchEvent::Lost => lost = true,
            WatchEvent::Notified { payload } if payload == "end" => break,
            WatchEvent::Notified { payload } => {
                let told: usize = std::str::from_utf8(&payload)
                    .ok()
                    .and_then(|t| t.parse().ok())
                    .expect("a number");
                assert!(
                    told == next || (lost && told > next),
                    "{told} in place of {next}, lost: {lost}"
                );
                (next, lost) = (told + 1, false);
            }
            WatchEvent::Changed { .. } => panic!("nothing changed"),
        }
    }
    assert!(next == TOLD || lost, "the last {} are missing without a word", TOLD - next);
}

async fn a_dropped_watch_disturbs_nobody(bench: Bench) {
    let object = bench.object("a");
    let mut stays = bench.watch(&object).await;
    for i in 0..100 {
        let dropped = bench.watch(&object).await;
        bench.notify(&object, i.to_string()).await.expect("notify");
        drop(dropped);
    }
    for i in 0..100 {
        assert_eq!(stays.next().await, notified(i.to_string()));
    }
}
