//! Versions count changes, and never repeat.

use nacre_object::Op;
use nacre_object::OpResult;

use super::Bench;
use crate::ops::*;

checks![
    every_change_has_a_version_of_its_own,
    reads_and_failures_leave_the_version,
    versions_rise_over_removal,
    stat_within_a_list_shows_what_was_before,
];

async fn every_change_has_a_version_of_its_own(bench: Bench) {
    let object = bench.object("a");
    let mut last = 0;
    let changes = [
        create(),
        write(0, "abc"),
        write(0, "abc"),
        append(""),
        truncate(3),
        zero(0, 0),
        write_full("abc"),
        set_attribute("a", "1"),
        set_attribute("a", "1"),
        remove_attribute("a"),
        map_set([("k", "v")]),
        map_set([("k", "v")]),
        map_remove(["k"]),
        map_remove(["k"]),
        map_set_header("h"),
        Op::MapClear,
        Op::MapClear,
    ];
    for op in changes {
        let name = op.name();
        let version = object.replies([op]).await.version;
        assert!(version > last, "{name}: {version} follows {last}");
        assert_eq!(object.version().await, Some(version), "{name}: the reply's version is stat's");
        last = version;
    }
}

async fn reads_and_failures_leave_the_version(bench: Bench) {
    let held = [write(0, "x"), map_set([("k", "v")]), set_attribute("a", "1")];
    let object = bench.object_with("a", held).await;
    let version = object.version().await.expect("it exists");
    let reads = [
        Op::Stat,
        read_all(),
        get_attribute("a"),
        Op::GetAttributes,
        map_get(["k"]),
        map_range("", "", 9),
        Op::MapGetHeader,
        Op::AssertExists,
        ensure(),
    ];
    for op in reads {
        let name = op.name();
        assert_eq!(object.replies([op]).await.version, version, "{name}");
    }
    object.refuses([write(0, "y"), create()]).await;
    assert_eq!(object.version().await, Some(version));
}

async fn versions_rise_over_removal(bench: Bench) {
    let object = bench.object("a");
    let mut last = 0;
    for round in 0..3 {
        let version = object.replies([write(0, "x")]).await.version;
        assert!(version > last, "round {round}: {version} follows {last}");
        last = object.replies([append("y")]).await.version;
        assert!(last > version);
        assert_eq!(object.replies([Op::Remove]).await.version, 0);
        assert_eq!(object.version().await, None);
    }
}

async fn stat_within_a_list_shows_what_was_before(bench: Bench) {
    let object = bench.object_with("a", [write(0, "abc")]).await;
    let OpResult::Stat(before) = object.answers(Op::Stat).await else { panic!("no stat") };
    let reply = object.replies([append("de"), Op::Stat]).await;
    let OpResult::Stat(within) = reply.results[1] else { panic!("no stat") };
    assert_eq!(
        (within.size, within.version),
        (5, before.version),
        "size of now, version of before"
    );
    assert_eq!(within.modified_micros, before.modified_micros);
    let OpResult::Stat(after) = object.answers(Op::Stat).await else { panic!("no stat") };
    assert_eq!((after.size, after.version), (5, reply.version));
    assert!(after.modified_micros >= before.modified_micros);
}
