//! What the users of maps rely on, on a store that may fail.

mod common;

use std::collections::BTreeMap;

use common::{NOW_MICROS, faulty_maps, maps, name, store};
use futures::future::join_all;
use nacre_conformance::faults::{FaultOdds, Operation, scripted, seeded, unreachable};
use nacre_conformance::wait::within_deadline;
use nacre_conformance::{Fault, seeds};
use nacre_object::{Capabilities, Capability, EntityName, ErrorKind};
use nacre_registry::limits::{
    MAX_CHANGES, MAX_ENTRIES, MAX_HISTORY_EPOCHS, MAX_KEY_BYTES, MAX_VALUE_BYTES,
};
use nacre_registry::{Change, MapEvent, MapState};

fn set(key: &str, value: &str) -> Vec<Change> {
    vec![Change::set(key, value.as_bytes().to_vec())]
}

#[tokio::test]
async fn a_map_starts_empty_at_epoch_0_and_counts_commits() {
    let maps = maps(&store());
    let map = name("m");
    assert_eq!(maps.get(&map).await.unwrap(), MapState::empty(map.clone()));
    assert!(maps.list().await.unwrap().is_empty(), "reading creates nothing");

    assert_eq!(maps.commit(&map, 0, set("a", "1")).await.unwrap(), 1);
    let both = vec![Change::set("b", "2"), Change::remove("a")];
    assert_eq!(maps.commit(&map, 1, both).await.unwrap(), 2);

    let state = maps.get(&map).await.unwrap();
    assert_eq!(state.epoch, 2);
    assert_eq!(state.entries, BTreeMap::from([("b".to_owned(), "2".into())]));
    assert_eq!(maps.entry(&map, "b").await.unwrap(), (2, Some("2".into())));
    assert_eq!(maps.entry(&map, "a").await.unwrap(), (2, None));
    assert_eq!(maps.list().await.unwrap(), [map]);
}

#[tokio::test]
async fn a_commit_at_another_epoch_is_a_conflict_and_changes_nothing() {
    let maps = maps(&store());
    let map = name("m");
    maps.commit(&map, 0, set("a", "1")).await.unwrap();
    for expected in [0, 2, u64::MAX] {
        let error = maps.commit(&map, expected, set("a", "2")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert_eq!(maps.entry(&map, "a").await.unwrap(), (1, Some("1".into())));
}

#[tokio::test]
async fn history_tells_who_changed_what_and_when() {
    let anne = maps(&store()).acting_as(EntityName::new("anne").unwrap());
    let map = name("m");
    for value in ["1", "2", "3"] {
        anne.apply(&map, set("a", value)).await.unwrap();
    }
    let history = anne.history(&map, 1, 10).await.unwrap();
    assert_eq!((history.epoch, history.first_kept), (3, 1));
    let epochs: Vec<_> = history.records.iter().map(|record| record.epoch).collect();
    assert_eq!(epochs, [2, 3]);
    let record = &history.records[0];
    assert_eq!(record.changes, set("a", "2"));
    assert_eq!((record.author.as_str(), record.at_micros), ("anne", NOW_MICROS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_committers_never_begin_the_same_epoch() {
    const COMMITTERS: usize = 8;
    const EACH: usize = 25;
    let store = store();
    let map = name("m");
    let committers = (0..COMMITTERS).map(|committer| {
        let (maps, map) = (maps(&store), map.clone());
        tokio::spawn(async move {
            let mut epochs = Vec::new();
            for _ in 0..EACH {
                let add_one = |state: &MapState| {
                    let count = state.entries.get("count").map_or(0, |value| number(value));
                    Ok(set("count", &(count + 1).to_string()))
                };
                epochs.push((maps.update(&map, add_one).await.unwrap(), committer));
            }
            epochs
        })
    });
    let mut epochs: Vec<_> =
        join_all(committers).await.into_iter().flat_map(|epochs| epochs.unwrap()).collect();
    epochs.sort_unstable();
    let numbers: Vec<_> = epochs.iter().map(|(epoch, _)| *epoch).collect();
    assert_eq!(numbers, (1..=(COMMITTERS * EACH) as u64).collect::<Vec<_>>());
    let (_, count) = maps(&store).entry(&map, "count").await.unwrap();
    assert_eq!(number(&count.unwrap()), (COMMITTERS * EACH) as u64);
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_is_done_once() {
    let store = store();
    let plan = scripted([Some(Fault::FailAfter), Some(Fault::FailBefore), Some(Fault::FailAfter)]);
    let (maps, _) = faulty_maps(&store, plan);
    let map = name("m");
    assert_eq!(maps.commit(&map, 0, set("a", "1")).await.unwrap(), 1);
    assert_eq!(maps.get(&map).await.unwrap().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_reported_as_possibly_done() {
    let (maps, stage) = faulty_maps(&store(), unreachable());
    let map = name("m");
    let error = maps.commit(&map, 0, set("a", "1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    stage.heal();
    assert_eq!(maps.get(&map).await.unwrap().epoch, 0);
}

#[tokio::test]
async fn a_commit_beyond_a_limit_is_refused_with_a_hint() {
    let maps = maps(&store());
    let map = name("m");
    let cases = [
        vec![],
        vec![Change::set("", "x")],
        vec![Change::set("k".repeat(MAX_KEY_BYTES + 1), "x")],
        vec![Change::set("k", vec![0; MAX_VALUE_BYTES + 1])],
        (0..=MAX_CHANGES).map(|n| Change::set(n.to_string(), "x")).collect(),
        (0..9).map(|n| Change::set(n.to_string(), vec![0; MAX_VALUE_BYTES])).collect(),
    ];
    for changes in cases {
        let error = maps.commit(&map, 0, changes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    }
    let largest = vec![Change::set("k".repeat(MAX_KEY_BYTES), vec![0; MAX_VALUE_BYTES])];
    assert_eq!(maps.commit(&map, 0, largest).await.unwrap(), 1);
}

#[tokio::test]
async fn a_full_map_refuses_more_and_takes_removals() {
    let maps = maps(&store());
    let map = name("m");
    for start in (0..MAX_ENTRIES).step_by(MAX_CHANGES) {
        let changes = (start..start + MAX_CHANGES as u64).map(|n| Change::set(n.to_string(), "x"));
        maps.apply(&map, changes.collect()).await.unwrap();
    }
    let error = maps.apply(&map, set("one more", "x")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    maps.apply(&map, vec![Change::remove("7"), Change::set("one more", "x")]).await.unwrap();
    let state = maps.get(&map).await.unwrap();
    assert_eq!(state.entries.len() as u64, MAX_ENTRIES);
    assert!(state.entries.contains_key("one more"));
}

#[tokio::test]
async fn a_watcher_sees_every_epoch_in_order() {
    let maps = maps(&store());
    let map = name("m");
    maps.commit(&map, 0, set("a", "0")).await.unwrap();
    let mut watcher = maps.watch(&map, 0);
    for epoch in 1..20 {
        let MapEvent::Epoch(record) =
            within_deadline("what is told next", watcher.next()).await.unwrap()
        else {
            panic!("a whole")
        };
        assert_eq!(record.epoch, epoch);
        maps.commit(&map, epoch, set("a", &epoch.to_string())).await.unwrap();
    }
}

#[tokio::test]
async fn a_watcher_too_far_behind_gets_the_whole_map() {
    let maps = maps(&store());
    let map = name("m");
    for n in 0..MAX_HISTORY_EPOCHS + 5 {
        maps.apply(&map, set("a", &n.to_string())).await.unwrap();
    }
    let whole = maps.get(&map).await.unwrap();
    for (from, expect_whole) in [(0, true), (4, true), (5, false)] {
        let event = maps.watch(&map, from).next().await.unwrap();
        match event {
            MapEvent::Whole(state) => assert!(expect_whole && state == whole, "from {from}"),
            MapEvent::Epoch(record) => assert!(!expect_whole && record.epoch == from + 1),
        }
    }
    let history = maps.history(&map, 0, usize::MAX).await.unwrap();
    assert_eq!((history.first_kept, history.records[0].epoch), (6, 6));
}

#[tokio::test(start_paused = true)]
async fn committers_notify_and_watchers_poll_if_the_store_reports_no_changes() {
    let store = store().with_capabilities(Capabilities::all().without(Capability::WatchChanges));
    let map = name("m");
    let committer = maps(&store);
    let mut watcher = maps(&store).watch(&map, 0);
    for epoch in 1..4 {
        let next = tokio::spawn(async move {
            (within_deadline("what is told next", watcher.next()).await, watcher)
        });
        committer.commit(&map, epoch - 1, set("a", "x")).await.unwrap();
        let (event, back) = next.await.unwrap();
        assert_eq!(event.unwrap().epoch(), epoch);
        watcher = back;
    }
    // A committer that dies before it notifies: here, one that cannot.
    let deaf = |operation: Operation<'_>| {
        matches!(operation, Operation::Notify(_)).then_some(Fault::FailBefore)
    };
    let (dying, _) = faulty_maps(&store, Box::new(deaf));
    dying.commit(&map, 3, set("a", "y")).await.unwrap();
    assert_eq!(within_deadline("what is told next", watcher.next()).await.unwrap().epoch(), 4);
    // A watcher that never acknowledges, as here.
    let unheard = |operation: Operation<'_>| {
        matches!(operation, Operation::Notify(_)).then_some(Fault::HoldReply)
    };
    let (committing, _) = faulty_maps(&store, Box::new(unheard));
    committing.commit(&map, 4, set("a", "z")).await.unwrap();
    assert_eq!(within_deadline("what is told next", watcher.next()).await.unwrap().epoch(), 5);
}

/// Watchers use a store that loses notifications and answers, while fast and slow committers
/// commit. Each watcher builds a copy of the map from its events alone. Every state of the copy
/// must be a committed state of the map.
#[tokio::test(start_paused = true)]
async fn a_watchers_copy_equals_the_map_although_messages_are_lost() {
    for seed in seeds(40) {
        let store = store();
        let map = name("m");
        let odds = FaultOdds { fail_before: 7, fail_after: 9, lose_event: 3 };
        let (committer, _) = faulty_maps(&store, seeded(seed, odds));
        let (watching, _) = faulty_maps(&store, seeded(seed + 1000, odds));
        let follow = async {
            let mut copy = MapState::empty(map.clone());
            let mut watcher = watching.watch(&map, 0);
            while copy.epoch < 50 {
                let event = within_deadline("what is told next", watcher.next()).await.unwrap();
                assert_eq!(event.epoch(), copy.epoch + 1, "seed {seed}");
                copy.apply(&event);
            }
            copy
        };
        let commit = async {
            for epoch in 0..50 {
                let key = format!("k{}", epoch % 7);
                let change =
                    if epoch % 5 == 4 { Change::remove(key) } else { Change::set(key, "v") };
                assert_eq!(committer.commit(&map, epoch, vec![change]).await.unwrap(), epoch + 1);
            }
        };
        let (copy, ()) = tokio::join!(follow, commit);
        assert_eq!(copy, maps(&store).get(&map).await.unwrap(), "seed {seed}");
    }
}
