//! Snapshots: an object as it was.

use nacre_object::ErrorKind::{Exhausted, Exists, Invalid, NotFound};
use nacre_object::limits::{MAX_SNAPSHOT_ENTRIES, MAX_SNAPSHOTS};
use nacre_object::{Capability, Op, OpResult};

use super::cases::{case, try_all};
use super::{Bench, TestObject};
use crate::ops::*;

checks![
    needs: &[Capability::Snapshots], watches: false,
    a_snapshot_keeps_everything_as_it_was,
    a_snapshot_is_read_only,
    rollback_restores_everything,
    rollback_brings_a_removed_object_back,
    snapshots_are_listed_and_removed,
    snapshots_are_part_of_their_transaction,
    snapshots_are_no_change,
    snapshots_outlive_their_object,
    large_streams_are_kept,
    snapshots_at_their_bounds,
];

fn first() -> [Op; 4] {
    [
        write(0, "first"),
        map_set([("k", "first"), ("only", "first")]),
        map_set_header("first"),
        set_attribute("a", "first"),
    ]
}

fn second() -> [Op; 6] {
    [
        write_full("the second"),
        map_set([("k", "second"), ("new", "second")]),
        map_remove(["only"]),
        map_set_header("second"),
        set_attribute("a", "second"),
        set_attribute("b", "second"),
    ]
}

/// An object with two snapshots: `one` has the first content, and `two` the second.
async fn object_with_two(bench: &Bench) -> TestObject {
    let object = bench.object_with("a", first()).await;
    object.does([snapshot_create("one")]).await;
    object.does(second()).await;
    object.does([snapshot_create("two")]).await;
    object
}

async fn a_snapshot_keeps_everything_as_it_was(bench: Bench) {
    let object = bench.object_with("a", first()).await;
    let stat = object.answers(Op::Stat).await;
    let content = object.content().await;
    object.does([snapshot_create("one")]).await;
    object.does(second()).await;
    object.does([truncate(2), Op::MapClear]).await;

    assert_eq!(object.content_at(Some(&snapshot("one"))).await, content);
    let reply = object.submit_at("one", [Op::Stat, Op::AssertExists]).await.expect("a read");
    assert_eq!(reply.results[0], stat, "size, time and version of the snapshot");
    let OpResult::Stat(stat) = stat else { panic!("no stat") };
    assert_eq!(reply.version, stat.version);
    object
        .submit_at("one", [Op::AssertVersion(stat.version)])
        .await
        .expect("it is of that version");
}

async fn a_snapshot_is_read_only(bench: Bench) {
    let object = object_with_two(&bench).await;
    let content = object.content_at(Some(&snapshot("one"))).await;
    for op in
        [create(), ensure(), append("x"), Op::Remove, snapshot_create("three"), rollback("two")]
    {
        let name = op.name();
        let error = object.submit_at("one", [read_all(), op]).await.expect_err(name);
        assert_eq!(error.kind(), Invalid, "{error}");
    }
    assert_eq!(object.content_at(Some(&snapshot("one"))).await, content);
    let error =
        object.submit_at("none", [read_all()]).await.expect_err("there is no such snapshot");
    assert_eq!(error.kind(), NotFound, "{error}");
    let absent = bench.object("absent").submit_at("one", [read_all()]).await;
    assert_eq!(absent.expect_err("there is no such object").kind(), NotFound);
}

async fn rollback_restores_everything(bench: Bench) {
    let object = object_with_two(&bench).await;
    let (one, two) = (snapshot("one"), snapshot("two"));
    let contents = (object.content_at(Some(&one)).await, object.content_at(Some(&two)).await);
    let before = object.version().await;

    let version = object.replies([rollback("one")]).await.version;
    assert!(Some(version) > before, "a rollback is a change");
    assert_eq!(object.content().await, contents.0);
    object.does([append("!"), map_set([("k", "third")])]).await;
    object.does([rollback("two")]).await;
    assert_eq!(object.content().await, contents.1);
    let kept = (object.content_at(Some(&one)).await, object.content_at(Some(&two)).await);
    assert!(kept == contents, "a rollback changed a snapshot");

    // The later ops of the transaction see the rollback.
    let results =
        object.does([rollback("one"), read_all(), append("!"), map_get(["only", "new"])]).await;
    assert_eq!(results[1..], [data("first"), OpResult::Offset(5), values([Some("first"), None])]);
    let error = object.refuses([write(0, "x"), rollback("none")]).await;
    assert_eq!((error.kind(), error.operation()), (NotFound, Some("rollback")), "{error}");
}

async fn rollback_brings_a_removed_object_back(bench: Bench) {
    let object = object_with_two(&bench).await;
    let content = object.content().await;
    let version = object.version().await;
    object.does([Op::Remove]).await;
    let back = object.replies([Op::AssertAbsent, rollback("two"), Op::AssertExists]).await;
    assert!(Some(back.version) > version);
    assert_eq!(object.content().await, content);
}

async fn snapshots_are_listed_and_removed(bench: Bench) {
    let done = OpResult::Done;
    let with = |names: &[&str]| {
        let taken = names.iter().map(|name| snapshot_create(name));
        [create()].into_iter().chain(taken).collect::<Vec<_>>()
    };
    let cases = [
        case("none").given([create()]).when([Op::SnapshotList]).answers([snapshots([])]),
        case("none of an absent object").when([Op::SnapshotList]).answers([snapshots([])]),
        case("by name")
            .given(with(&["b", "a", "c"]))
            .when([Op::SnapshotList])
            .answers([snapshots(["a", "b", "c"])]),
        case("a removed one is gone")
            .given(with(&["a", "b"]))
            .when([snapshot_remove("a"), Op::SnapshotList])
            .answers([done.clone(), snapshots(["b"])]),
        case("a name is free again")
            .given(with(&["a"]))
            .when([snapshot_remove("a"), write(0, "x"), snapshot_create("a"), Op::SnapshotList])
            .answers([done.clone(), done.clone(), done.clone(), snapshots(["a"])]),
        case("a name is taken")
            .given(with(&["a"]))
            .when([snapshot_create("a")])
            .fails(Exists, "snapshot-create"),
        case("of an absent object").when([snapshot_create("a")]).fails(NotFound, "snapshot-create"),
        case("none to remove")
            .given(with(&["a"]))
            .when([snapshot_remove("b")])
            .fails(NotFound, "snapshot-remove"),
    ];
    try_all(&bench, cases).await;

    let object = object_with_two(&bench).await;
    object.does([snapshot_remove("one")]).await;
    let error = object.submit_at("one", [read_all()]).await.expect_err("it was removed");
    assert_eq!(error.kind(), NotFound, "{error}");
    assert_eq!(
        object.submit_at("two", [read_all()]).await.expect("it stays").results,
        [data("the second")]
    );
}

async fn snapshots_are_part_of_their_transaction(bench: Bench) {
    let object = bench.object("a");
    let reply = object
        .replies([write(0, "in the list"), snapshot_create("one"), append(", and after")])
        .await;
    let kept = object.submit_at("one", [read_all()]).await.expect("it was taken");
    assert_eq!(kept.results, [data("in the list")]);
    assert!(kept.version <= reply.version, "{} is of the future", kept.version);

    object.refuses([snapshot_create("two"), create()]).await;
    object.refuses([snapshot_remove("one"), create()]).await;
    assert_eq!(object.answers(Op::SnapshotList).await, snapshots(["one"]));
    let cases = [
        case("taken and rolled back to in one list")
            .given([write(0, "abc")])
            .when([snapshot_create("s"), append("def"), rollback("s"), read_all()])
            .answers([OpResult::Done, OpResult::Offset(3), OpResult::Done, data("abc")]),
        case("taken, removed and brought back in one list")
            .given([write(0, "abc")])
            .when([snapshot_create("s"), Op::Remove, rollback("s"), read_all()])
            .answers([OpResult::Done, OpResult::Done, OpResult::Done, data("abc")]),
    ];
    try_all(&bench, cases).await;
}

async fn snapshots_are_no_change(bench: Bench) {
    let object = bench.object_with("a", first()).await;
    let stat = object.answers(Op::Stat).await;
    let version = object.version().await.expect("it exists");
    assert_eq!(object.replies([snapshot_create("one")]).await.version, version);
    assert_eq!(object.replies([Op::SnapshotList]).await.version, version);
    assert_eq!(object.replies([snapshot_remove("one")]).await.version, version);
    assert_eq!(object.answers(Op::Stat).await, stat);
}

async fn snapshots_outlive_their_object(bench: Bench) {
    let object = object_with_two(&bench).await;
    let content = object.content_at(Some(&snapshot("one"))).await;
    object.does([Op::Remove]).await;
    assert_eq!(object.content_at(Some(&snapshot("one"))).await, content);
    assert_eq!(object.answers(Op::SnapshotList).await, snapshots(["one", "two"]));

    object.does([create(), append("another life")]).await;
    assert_eq!(object.content_at(Some(&snapshot("one"))).await, content);
    let error = object.refuses([snapshot_create("one")]).await;
    assert_eq!(error.kind(), Exists, "{error}");

    object.does([Op::Remove]).await;
    object.does([snapshot_remove("one"), snapshot_remove("two")]).await;
    assert_eq!(object.answers(Op::SnapshotList).await, snapshots([]));
    assert_eq!(object.content().await, None);
}

async fn large_streams_are_kept(bench: Bench) {
    let pattern = |seed: usize| (0..3_000_000).map(|i| (i * seed % 253) as u8).collect::<Vec<_>>();
    let object = bench.object_with("a", [write_full(pattern(7))]).await;
    object.does([snapshot_create("one")]).await;
    object.does([write(1_000_000, vec![1; 500_000]), truncate(1_700_000), append("tail")]).await;
    object.does([snapshot_create("two")]).await;
    object.does([write_full(pattern(11))]).await;

    let mut changed = pattern(7);
    changed[1_000_000..1_500_000].fill(1);
    changed.truncate(1_700_000);
    changed.extend_from_slice(b"tail");
    for (name, expected) in [("one", pattern(7)), ("two", changed)] {
        let kept = object.content_at(Some(&snapshot(name))).await.expect("it was taken").stream;
        assert!(kept == expected, "snapshot {name} is not what it was");
        object.does([rollback(name)]).await;
        let back = object.content().await.expect("it exists").stream;
        assert!(back == expected, "rollback to {name}");
    }
    object.does([snapshot_remove("one")]).await;
    let kept = object.content_at(Some(&snapshot("two"))).await.expect("it stays").stream;
    assert!(kept == object.content().await.expect("it exists").stream, "removing one harmed two");
}

async fn snapshots_at_their_bounds(bench: Bench) {
    let object = bench.object_with("many", [write(0, "x")]).await;
    for i in 0..MAX_SNAPSHOTS {
        object.does([snapshot_create(&format!("s{i}"))]).await;
    }
    let error = object.refuses([snapshot_create("more")]).await;
    assert_eq!((error.kind(), error.operation()), (Exhausted, Some("snapshot-create")), "{error}");
    object.does([snapshot_remove("s0"), snapshot_create("more")]).await;

    let object = bench.object("large");
    for part in 0..=MAX_SNAPSHOT_ENTRIES / 4096 {
        object.does([map_set((0..4096).map(|i| (format!("{part}-{i}"), "v")))]).await;
    }
    let result = object.submit([snapshot_create("s")]).await;
    assert_eq!(result.expect_err("too many entries").kind(), Exhausted);
    assert_eq!(object.answers(Op::SnapshotList).await, snapshots([]));
}
