//! Checks every bound on requests. A request exactly at a bound works. A request that is one above
//! it fails with the right kind of error and changes nothing.

use bytes::Bytes;
use nacre_object::ErrorKind::{Exhausted, Invalid};
use nacre_object::limits::{
    MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTE_VALUE_BYTES, MAX_ATTRIBUTES, MAX_MAP_KEY_BYTES,
    MAX_MAP_VALUE_BYTES, MAX_OBJECT_BYTES, MAX_OBJECT_NAME_BYTES, MAX_OPS, MAX_REPLY_BYTES,
    MAX_REQUEST_BYTES, MAX_REQUEST_KEYS,
};
use nacre_object::{Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![
    map_keys_and_values,
    attribute_names_values_and_count,
    the_byte_stream,
    requests_at_their_bounds,
    the_keys_of_a_request,
    replies_past_their_bound_are_exhausted,
    a_map_range_stops_at_what_a_reply_holds,
    the_longest_object_name,
];

fn bytes(count: usize) -> Bytes {
    Bytes::from(vec![b'x'; count])
}

fn text(count: usize) -> String {
    "x".repeat(count)
}

async fn map_keys_and_values(bench: Bench) {
    let done = OpResult::Done;
    let key = |count| bytes(count);
    let longest = MAX_MAP_KEY_BYTES;
    let largest = MAX_MAP_VALUE_BYTES;
    let cases = [
        case("the longest key")
            .when([
                map_set([(key(longest), "v")]),
                map_get([key(longest)]),
                map_range("", key(longest), 1),
            ])
            .answers([done.clone(), values([Some("v")]), range([(key(longest), "v")])]),
        case("a page after the longest key")
            .given([map_set([(key(longest), "v")])])
            .when([map_range(key(longest), "", 1)])
            .answers([range::<&str, &str>([])]),
        case("a longer key").when([map_set([(key(longest + 1), "v")])]).fails(Invalid, "map-set"),
        case("a longer key to get")
            .given([create()])
            .when([map_get([key(longest + 1)])])
            .fails(Invalid, "map-get"),
        case("a longer key to remove")
            .given([create()])
            .when([map_remove([key(longest + 1)])])
            .fails(Invalid, "map-remove"),
        case("a longer prefix")
            .given([create()])
            .when([map_range("", key(longest + 1), 1)])
            .fails(Invalid, "map-range"),
        case("a longer bound")
            .given([create()])
            .when([map_range(key(longest + 1), "", 1)])
            .fails(Invalid, "map-range"),
        case("the empty key").when([map_set([("", "v")])]).fails(Invalid, "map-set"),
        case("the empty key to get")
            .given([create()])
            .when([map_get([""])])
            .fails(Invalid, "map-get"),
        case("the largest value")
            .when([map_set([("k", bytes(largest))]), map_get(["k"])])
            .answers([done.clone(), OpResult::Values(vec![Some(bytes(largest))])]),
        case("a larger value")
            .when([map_set([("k", bytes(largest + 1))])])
            .fails(Invalid, "map-set"),
        case("the largest header")
            .when([map_set_header(bytes(largest)), Op::MapGetHeader])
            .answers([done.clone(), data(bytes(largest))]),
        case("a larger header")
            .when([map_set_header(bytes(largest + 1))])
            .fails(Invalid, "map-set-header"),
    ];
    try_all(&bench, cases).await;
}

async fn attribute_names_values_and_count(bench: Bench) {
    let done = OpResult::Done;
    let longest = MAX_ATTRIBUTE_NAME_BYTES;
    let largest = MAX_ATTRIBUTE_VALUE_BYTES;
    let full = || (0..MAX_ATTRIBUTES).map(|i| set_attribute(format!("a{i}"), "v"));
    let cases = [
        case("the longest name")
            .when([set_attribute(text(longest), "v"), get_attribute(text(longest))])
            .answers([done.clone(), data("v")]),
        case("a longer name")
            .when([set_attribute(text(longest + 1), "v")])
            .fails(Invalid, "set-attribute"),
        case("a longer name to get")
            .given([create()])
            .when([get_attribute(text(longest + 1))])
            .fails(Invalid, "get-attribute"),
        case("no name").when([set_attribute("", "v")]).fails(Invalid, "set-attribute"),
        case("a name with a NUL")
            .when([set_attribute("a\0b", "v")])
            .fails(Invalid, "set-attribute"),
        case("the largest value")
            .when([set_attribute("a", bytes(largest)), get_attribute("a")])
            .answers([done.clone(), data(bytes(largest))]),
        case("a larger value")
            .when([set_attribute("a", bytes(largest + 1))])
            .fails(Invalid, "set-attribute"),
        case("one too many")
            .given(full())
            .when([set_attribute("more", "v")])
            .fails(Exhausted, "set-attribute"),
        case("one replaced while full")
            .given(full())
            .when([set_attribute("a0", "new"), get_attribute("a0")])
            .answers([done.clone(), data("new")]),
        case("one for another while full")
            .given(full())
            .when([remove_attribute("a0"), set_attribute("more", "v")])
            .answers([done.clone(), done.clone()]),
    ];
    try_all(&bench, cases).await;
}

async fn the_byte_stream(bench: Bench) {
    let done = OpResult::Done;
    let most = MAX_OBJECT_BYTES;
    // Each case frees the space that it filled, because some engines use real space for a sparse
    // stream.
    let object = bench.object("full");
    object.does([truncate(most)]).await;
    let results = object.does([write(most - 1, "x"), read(most - 2, 9), append("")]).await;
    assert_eq!(results, [done.clone(), data("\0x"), OpResult::Offset(most)]);
    let past = [append("y"), write(most, "y"), write(most - 1, "yy"), truncate(most + 1)];
    for op in past {
        let (name, result) = (op.name(), object.submit([op]).await);
        let error = result.expect_err(name);
        assert_eq!((error.kind(), error.operation()), (Exhausted, Some(name)), "{error}");
    }
    assert_eq!(object.answers(read(most - 2, 9)).await, data("\0x"));
    object.does([Op::Remove]).await;

    let cases = [
        case("a write far past").when([write(u64::MAX, "x")]).fails(Exhausted, "write"),
        case("a write of nothing far past").when([write(u64::MAX, "")]).fails(Exhausted, "write"),
        case("an extension far past").when([truncate(u64::MAX)]).fails(Exhausted, "truncate"),
        case("zeros over everything")
            .given([write(0, "abc")])
            .when([zero(0, u64::MAX), read_all()])
            .answers([done.clone(), data("\0\0\0")]),
        case("zeros from the last offset there is")
            .given([write(0, "abc")])
            .when([zero(u64::MAX, u64::MAX), read_all()])
            .answers([done, data("abc")]),
    ];
    try_all(&bench, cases).await;
}

async fn requests_at_their_bounds(bench: Bench) {
    let object = bench.object("ops");
    let results = object.does(vec![append("x"); MAX_OPS]).await;
    assert_eq!(results.last(), Some(&OpResult::Offset(MAX_OPS as u64 - 1)));
    let error = object.submit(vec![append("x"); MAX_OPS + 1]).await.expect_err("too many ops");
    assert_eq!(error.kind(), Invalid, "{error}");
    let error = object.submit([]).await.expect_err("no ops");
    assert_eq!(error.kind(), Invalid, "{error}");

    let object = bench.object("bytes");
    object.does([write_full(bytes(MAX_REQUEST_BYTES))]).await;
    let error = object.submit([append(bytes(MAX_REQUEST_BYTES + 1))]).await.expect_err("too much");
    assert_eq!(error.kind(), Invalid, "{error}");
    assert_eq!(object.answers(read_all()).await, data(bytes(MAX_REQUEST_BYTES)));
}

async fn the_keys_of_a_request(bench: Bench) {
    let object = bench.object_with("a", [map_set([("k", "v")])]).await;
    let half = || vec!["k"; MAX_REQUEST_KEYS / 2];
    object.does([map_get(half()), map_remove(half())]).await;
    let set = || map_set(half().into_iter().map(|key| (key, "v")));
    for op in [map_get(half()), map_remove(half()), set()] {
        let error = object.submit([op, set(), map_get(["k"])]).await.expect_err("too many keys");
        assert_eq!(error.kind(), Invalid, "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    }
    assert_eq!(object.answers(map_get(["k"])).await, values([None]));
}

async fn replies_past_their_bound_are_exhausted(bench: Bench) {
    let object = bench.object_with("a", [write_full(bytes(MAX_REPLY_BYTES))]).await;
    assert_eq!(object.answers(read_all()).await, data(bytes(MAX_REPLY_BYTES)));
    let error = object.refuses([read_all(), read(0, 1)]).await;
    assert_eq!((error.kind(), error.operation()), (Exhausted, Some("read")), "{error}");

    object.does([append("x")]).await;
    let error = object.refuses([read_all()]).await;
    assert_eq!((error.kind(), error.operation()), (Exhausted, Some("read")), "{error}");
    let piece = read(MAX_REPLY_BYTES as u64, MAX_REPLY_BYTES as u64);
    assert_eq!(object.answers(piece).await, data("x"));
}

async fn a_map_range_stops_at_what_a_reply_holds(bench: Bench) {
    let object = bench.object("a");
    let count = MAX_REPLY_BYTES / MAX_MAP_VALUE_BYTES + 3;
    for i in 0..count {
        object.does([map_set([(format!("key-{i:03}"), bytes(MAX_MAP_VALUE_BYTES))])]).await;
    }
    let OpResult::Range(first) = object.answers(map_range("", "", 100)).await else {
        panic!("map-range answers a range")
    };
    let held: usize = first.entries.iter().map(|e| e.key.len() + e.value.len()).sum();
    assert!(first.more && held <= MAX_REPLY_BYTES, "{held} bytes, more: {}", first.more);
    assert!(!first.entries.is_empty(), "a page of nothing");
    let last = &first.entries[first.entries.len() - 1];
    let OpResult::Range(rest) = object.answers(map_range(last.key.clone(), "", 100)).await else {
        panic!("map-range answers a range")
    };
    assert_eq!((first.entries.len() + rest.entries.len(), rest.more), (count, false));
}

async fn the_longest_object_name(bench: Bench) {
    let prefix = bench.object("").name().as_str().len();
    let object = bench.object(text(MAX_OBJECT_NAME_BYTES - prefix));
    assert_eq!(object.name().as_str().len(), MAX_OBJECT_NAME_BYTES);
    object.does([create(), append("x"), map_set([("k", "v")])]).await;
    assert_eq!(object.answers(read_all()).await, data("x"));
}
