//! The key–value map and its header.

use bytes::Bytes;
use nacre_object::ErrorKind::NotFound;
use nacre_object::limits::MAX_MAP_RANGE_ENTRIES;
use nacre_object::{Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![
    keys_are_set_got_and_removed,
    ranges_are_in_byte_order_within_their_bounds,
    paging_visits_every_key_once,
    the_header_is_apart_from_the_keys,
    maps_of_absent_objects_are_not_found,
];

async fn keys_are_set_got_and_removed(bench: Bench) {
    let two = || [map_set([("a", "1"), ("b", "2")])];
    let done = OpResult::Done;
    let cases = [
        case("values come in the order asked for, absent ones too")
            .given(two())
            .when([map_get(["b", "x", "a", "b"])])
            .answers([values([Some("2"), None, Some("1"), Some("2")])]),
        case("no keys asked for").given(two()).when([map_get::<&str>([])]).answers([values([])]),
        case("a later value replaces an earlier one")
            .given(two())
            .when([map_set([("a", "new")]), map_get(["a", "b"])])
            .answers([done.clone(), values([Some("new"), Some("2")])]),
        case("the last of a doubled key counts")
            .when([map_set([("a", "1"), ("a", "2")]), map_get(["a"])])
            .answers([done.clone(), values([Some("2")])]),
        case("an empty value is a value")
            .given([map_set([("a", "")])])
            .when([map_get(["a"]), map_range("", "", 9)])
            .answers([values([Some("")]), range([("a", "")])]),
        case("removed keys are gone, whether they were there or not")
            .given(two())
            .when([map_remove(["a", "x"]), map_get(["a", "b"])])
            .answers([done.clone(), values([None, Some("2")])]),
        case("set again after removal")
            .given(two())
            .when([map_remove(["a"]), map_set([("a", "3")]), map_range("", "", 9)])
            .answers([done.clone(), done.clone(), range([("a", "3"), ("b", "2")])]),
        case("keys are bytes, zero and all")
            .given([map_set([
                (&b"\0"[..], "zero"),
                (&b"\0\0"[..], "two"),
                (&b"\xff\xfe"[..], "high"),
            ])])
            .when([map_get([&b"\0\0"[..], &b"\0"[..], &b"\xff\xfe"[..]])])
            .answers([values([Some("two"), Some("zero"), Some("high")])]),
        case("setting nothing makes the object")
            .when([map_set::<&str, &str>([]), Op::AssertExists])
            .answers([done.clone(), done.clone()]),
        case("a clear takes all")
            .given(two())
            .when([Op::MapClear, map_range("", "", 9)])
            .answers([done.clone(), range::<&str, &str>([])]),
        case("set after a clear in one list")
            .given(two())
            .when([Op::MapClear, map_set([("c", "3")]), map_range("", "", 9)])
            .answers([done.clone(), done.clone(), range([("c", "3")])]),
    ];
    try_all(&bench, cases).await;
}

async fn ranges_are_in_byte_order_within_their_bounds(bench: Bench) {
    let some = || [map_set(["b", "ab", "a", "abc", "b1", "ac"].map(|key| (key, key)))];
    let edges = || [map_set(EDGE_KEYS.map(|key| (key, key)))];
    let of = |keys: &[&'static str]| range(keys.iter().map(|key| (*key, *key)));
    let of_edges = |keys: &[&'static [u8]]| range(keys.iter().map(|key| (*key, *key)));
    let cases = [
        case("all")
            .given(some())
            .when([map_range("", "", 9)])
            .answers([of(&["a", "ab", "abc", "ac", "b", "b1"])]),
        case("a prefix").given(some()).when([map_range("", "ab", 9)]).answers([of(&["ab", "abc"])]),
        case("a prefix no key has").given(some()).when([map_range("", "x", 9)]).answers([of(&[])]),
        case("after a key")
            .given(some())
            .when([map_range("abc", "", 9)])
            .answers([of(&["ac", "b", "b1"])]),
        case("after a key that is not there")
            .given(some())
            .when([map_range("abb", "", 9)])
            .answers([of(&["abc", "ac", "b", "b1"])]),
        case("after a key within a prefix")
            .given(some())
            .when([map_range("ab", "a", 9)])
            .answers([of(&["abc", "ac"])]),
        case("after what comes before the prefix")
            .given(some())
            .when([map_range("a", "b", 9)])
            .answers([of(&["b", "b1"])]),
        case("after what comes behind the prefix")
            .given(some())
            .when([map_range("c", "a", 9)])
            .answers([of(&[])]),
        case("a limit, and more")
            .given(some())
            .when([map_range("", "", 2)])
            .answers([range_and_more([("a", "a"), ("ab", "ab")])]),
        case("a limit that just fits")
            .given(some())
            .when([map_range("", "ab", 2)])
            .answers([of(&["ab", "abc"])]),
        case("more is of the prefix only")
            .given(some())
            .when([map_range("abc", "a", 1)])
            .answers([of(&["ac"])]),
        case("a limit of none asks whether there are any")
            .given(some())
            .when([map_range("", "", 0), map_range("", "x", 0)])
            .answers([range_and_more::<&str, &str>([]), of(&[])]),
        case("an empty map").given([create()]).when([map_range("", "", 9)]).answers([of(&[])]),
        case("all edges")
            .given(edges())
            .when([map_range("", "", 99)])
            .answers([of_edges(&EDGE_KEYS)]),
        case("the highest prefix")
            .given(edges())
            .when([map_range("", &b"\xff\xff"[..], 9)])
            .answers([of_edges(&[b"\xff\xff", b"\xff\xff\0", b"\xff\xff\xff"])]),
        case("a prefix before the highest")
            .given(edges())
            .when([map_range("", &b"\xfe"[..], 9)])
            .answers([of_edges(&[b"\xfe", b"\xfe\xff"])]),
        case("the lowest prefix")
            .given(edges())
            .when([map_range("", &b"\0"[..], 9)])
            .answers([of_edges(&[b"\0", b"\0\0", b"\0\xff"])]),
        case("after the highest of a prefix")
            .given(edges())
            .when([map_range(&b"\xfe\xff"[..], "", 1)])
            .answers([range_and_more([(&b"\xff"[..], &b"\xff"[..])])]),
    ];
    try_all(&bench, cases).await;
}

/// In byte order.
const EDGE_KEYS: [&[u8]; 11] = [
    b"\0",
    b"\0\0",
    b"\0\xff",
    b"\x01",
    b"a",
    b"\xfe",
    b"\xfe\xff",
    b"\xff",
    b"\xff\xff",
    b"\xff\xff\0",
    b"\xff\xff\xff",
];

async fn paging_visits_every_key_once(bench: Bench) {
    let object = bench.object("many");
    let count = MAX_MAP_RANGE_ENTRIES + 100;
    let keys: Vec<Bytes> = (0..count).map(|i| Bytes::from(format!("key-{i:06}"))).collect();
    for part in keys.chunks(1000) {
        object.does([map_set(part.iter().map(|key| (key.clone(), "v")))]).await;
    }
    let OpResult::Range(first) = object.answers(map_range("", "", u32::MAX)).await else {
        panic!("map-range answers a range")
    };
    assert_eq!((first.entries.len(), first.more), (MAX_MAP_RANGE_ENTRIES, true), "the first page");

    for limit in [1000, 4000] {
        let mut found: Vec<Bytes> = Vec::new();
        loop {
            let after = found.last().cloned().unwrap_or_default();
            let OpResult::Range(page) = object.answers(map_range(after, "key-", limit)).await
            else {
                panic!("map-range answers a range")
            };
            found.extend(page.entries.into_iter().map(|entry| entry.key));
            if !page.more {
                break;
            }
        }
        assert!(found == keys, "paging by {limit} finds {} of {count} keys", found.len());
    }
}

async fn the_header_is_apart_from_the_keys(bench: Bench) {
    let done = OpResult::Done;
    let both = || [map_set_header("head"), map_set([("k", "v")])];
    let cases = [
        case("none was set").given([create()]).when([Op::MapGetHeader]).answers([data("")]),
        case("it makes the object")
            .when([map_set_header("head"), Op::MapGetHeader])
            .answers([done.clone(), data("head")]),
        case("it is no key")
            .given(both())
            .when([map_range("", "", 9)])
            .answers([range([("k", "v")])]),
        case("it is replaced")
            .given(both())
            .when([map_set_header("neck"), Op::MapGetHeader])
            .answers([done.clone(), data("neck")]),
        case("it stays when keys go")
            .given(both())
            .when([map_remove(["k"]), Op::MapGetHeader])
            .answers([done.clone(), data("head")]),
        case("it goes when the map is cleared")
            .given(both())
            .when([Op::MapClear, Op::MapGetHeader])
            .answers([done.clone(), data("")]),
    ];
    try_all(&bench, cases).await;
}

async fn maps_of_absent_objects_are_not_found(bench: Bench) {
    let cases = [
        case("get").when([map_get(["k"])]).fails(NotFound, "map-get"),
        case("get of nothing").when([map_get::<&str>([])]).fails(NotFound, "map-get"),
        case("range").when([map_range("", "", 9)]).fails(NotFound, "map-range"),
        case("header").when([Op::MapGetHeader]).fails(NotFound, "map-get-header"),
        case("remove").when([map_remove(["k"])]).fails(NotFound, "map-remove"),
        case("remove of nothing").when([map_remove::<&str>([])]).fails(NotFound, "map-remove"),
        case("clear").when([Op::MapClear]).fails(NotFound, "map-clear"),
    ];
    try_all(&bench, cases).await;
}
