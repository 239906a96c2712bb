//! Clones: a new object made from another's snapshot.

use nacre_object::ErrorKind::{Exists, Invalid, NotFound};
use nacre_object::{Capability, Op, OpResult};

use super::Bench;
use crate::ops::*;

checks![
    needs: &[Capability::Snapshots, Capability::Clone], watches: false,
    a_clone_holds_what_the_snapshot_held,
    a_clone_and_its_source_go_their_own_ways,
    a_clone_needs_a_source_and_room,
    a_clone_is_part_of_its_transaction,
    a_stream_is_replaced_by_that_of_a_snapshot,
    a_replaced_stream_needs_a_source_and_shares_no_later_change,
];

fn held() -> [Op; 4] {
    [write(0, "held"), map_set([("k", "held")]), map_set_header("held"), set_attribute("a", "held")]
}

fn create_map() -> Op {
    map_set([("only", "the source's")])
}

async fn a_clone_holds_what_the_snapshot_held(bench: Bench) {
    let source = bench.object_with("source", held()).await;
    let content = source.content().await;
    source.does([snapshot_create("s")]).await;
    source.does([write_full("later"), Op::MapClear]).await;

    let clone = bench.object("clone");
    let reply = clone.replies([clone_from(source.name(), "s")]).await;
    assert!(reply.version > 0);
    assert_eq!(clone.content().await, content);
    assert_eq!(clone.answers(Op::SnapshotList).await, snapshots([]), "snapshots are not cloned");

    source.does([Op::Remove]).await;
    let late = bench.object("late clone");
    late.does([clone_from(source.name(), "s")]).await;
    assert_eq!(late.content().await, content, "a clone from a removed object's snapshot");
}

async fn a_clone_and_its_source_go_their_own_ways(bench: Bench) {
    let large: Vec<u8> = (0..2_000_000).map(|i| (i % 239) as u8).collect();
    let source = bench.object_with("source", [write_full(large.clone())]).await;
    source.does([map_set([("k", "v")]), snapshot_create("s")]).await;
    let clone = bench.object("clone");
    clone.does([clone_from(source.name(), "s")]).await;

    clone.does([write(1_000_000, "clone"), map_set([("k", "clone")])]).await;
    source.does([write(1_000_000, "source"), snapshot_remove("s")]).await;
    source.does([Op::Remove]).await;
    let mut expected = large;
    expected[1_000_000..1_000_005].copy_from_slice(b"clone");
    let content = clone.content().await.expect("it exists");
    assert!(content.stream == expected, "the clone's stream");
    assert_eq!(clone.answers(map_get(["k"])).await, values([Some("clone")]));
}

async fn a_clone_needs_a_source_and_room(bench: Bench) {
    let source = bench.object_with("source", held()).await;
    source.does([snapshot_create("s")]).await;
    let taken = bench.object_with("taken", [create()]).await;
    let error = taken.refuses([clone_from(source.name(), "s")]).await;
    assert_eq!((error.kind(), error.operation()), (Exists, Some("clone-from")), "{error}");

    let clone = bench.object("clone");
    let error = clone.refuses([clone_from(source.name(), "none")]).await;
    assert_eq!((error.kind(), error.operation()), (NotFound, Some("clone-from")), "{error}");
    let error = clone.refuses([clone_from(bench.object("absent").name(), "s")]).await;
    assert_eq!(error.kind(), NotFound, "{error}");
    let error = source.refuses([Op::Remove, clone_from(source.name(), "s")]).await;
    assert_eq!(error.kind(), Invalid, "{error}");
}

async fn a_stream_is_replaced_by_that_of_a_snapshot(bench: Bench) {
    let large: Vec<u8> = (0..2_000_000).map(|i| (i % 239) as u8).collect();
    for content in [large, b"short".to_vec(), vec![]] {
        let source = bench.object_with("source", [write_full(content.clone()), create_map()]).await;
        source.does([snapshot_create("s")]).await;
        source.does([write_full("later")]).await;
        for before in [vec![], held().to_vec(), vec![write(3_000_000, "far")]] {
            let object = bench.object("object");
            let existed = !before.is_empty();
            if existed {
                object.does(before).await;
            }
            let kept = object.content().await;
            object.does([write_full_from(source.name(), "s")]).await;
            let now = object.content().await.expect("it exists");
            assert!(
                now.stream == content,
                "{} bytes instead of {}",
                now.stream.len(),
                content.len()
            );
            let mut expected = kept.unwrap_or_default();
            expected.stream = now.stream.clone();
            assert_eq!(now, expected, "all but the stream stays");
            object.does([Op::Remove]).await;
        }
        source.does([snapshot_remove("s"), Op::Remove]).await;
    }
}

async fn a_replaced_stream_needs_a_source_and_shares_no_later_change(bench: Bench) {
    let source = bench.object_with("source", held()).await;
    source.does([snapshot_create("s")]).await;
    let object = bench.object_with("object", [write_full("before")]).await;
    let error = object.refuses([write_full_from(source.name(), "none")]).await;
    assert_eq!((error.kind(), error.operation()), (NotFound, Some("write-full-from")), "{error}");
    let error = source.refuses([write_full_from(source.name(), "s")]).await;
    assert_eq!(error.kind(), Invalid, "{error}");
    object.refuses([write_full_from(source.name(), "s"), Op::AssertAbsent]).await;
    assert_eq!(object.answers(read_all()).await, data("before"), "a refused transaction");

    let ops = [write_full_from(source.name(), "s"), append("!"), read_all()];
    assert_eq!(object.does(ops).await[2], data("held!"));
    source.does([snapshot_remove("s"), write_full("other")]).await;
    source.does([Op::Remove]).await;
    assert_eq!(object.answers(read_all()).await, data("held!"), "its source is gone");
}

async fn a_clone_is_part_of_its_transaction(bench: Bench) {
    let source = bench.object_with("source", held()).await;
    source.does([snapshot_create("s")]).await;
    let clone = bench.object("clone");
    clone.refuses([clone_from(source.name(), "s"), create()]).await;
    let ops = [clone_from(source.name(), "s"), append("!"), read_all(), map_get(["k"])];
    let results = clone.does(ops).await;
    assert_eq!(results[1..], [OpResult::Offset(4), data("held!"), values([Some("held")])]);

    // The clone replaces the content that the object had.
    let results = clone.does([Op::Remove, clone_from(source.name(), "s"), read_all()]).await;
    assert_eq!(results[2], data("held"));
}
