//! Checks of transactions: the ops of a list happen all or not at all, and each op sees the effects
//! of the ops before it.

use nacre_object::ErrorKind::{Exists, Invalid, NotFound};
use nacre_object::{ErrorKind, Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![
    a_list_sees_its_own_writes,
    a_failure_anywhere_leaves_nothing,
    an_error_names_operation_and_object,
    a_failed_creation_leaves_no_object,
    removal_and_creation_in_one_list,
];

async fn a_list_sees_its_own_writes(bench: Bench) {
    let done = OpResult::Done;
    let cases = [
        case("stream")
            .given([write(0, "before")])
            .when([write(2, "XX"), read_all(), append("!"), read(4, 9)])
            .answers([done.clone(), data("beXXre"), OpResult::Offset(6), data("re!")]),
        case("map")
            .given([map_set([("a", "1"), ("b", "2"), ("c", "3")])])
            .when([
                map_set([("b", "new"), ("bb", "x")]),
                map_remove(["a"]),
                map_get(["a", "b"]),
                map_range("", "", 2),
                map_range("b", "b", 9),
            ])
            .answers([
                done.clone(),
                done.clone(),
                values([None, Some("new")]),
                range_and_more([("b", "new"), ("bb", "x")]),
                range([("bb", "x")]),
            ]),
        case("a page past removed keys")
            .given([map_set(["a", "b", "c", "d"].map(|key| (key, key)))])
            .when([map_remove(["b", "c"]), map_range("a", "", 1), map_range("a", "", 0)])
            .answers([done.clone(), range([("d", "d")]), range_and_more::<&str, &str>([])]),
        case("nothing is left after removed keys")
            .given([map_set(["a", "b"].map(|key| (key, key)))])
            .when([map_remove(["b"]), map_range("", "", 1)])
            .answers([done.clone(), range([("a", "a")])]),
        case("header and attributes")
            .given([map_set_header("old"), set_attribute("a", "old")])
            .when([
                map_set_header("new"),
                set_attribute("a", "new"),
                Op::MapGetHeader,
                get_attribute("a"),
            ])
            .answers([done.clone(), done.clone(), data("new"), data("new")]),
        case("whole, part, cut, zero")
            .given([write(0, "0123456789")])
            .when([write_full("abcdef"), write(1, "--"), truncate(5), zero(0, 1), read_all()])
            .answers([done.clone(), done.clone(), done.clone(), done.clone(), data("\0--de")]),
    ];
    try_all(&bench, cases).await;
}

async fn a_failure_anywhere_leaves_nothing(bench: Bench) {
    let held = || {
        [
            write(0, "kept"),
            map_set([("k", "kept")]),
            map_set_header("kept"),
            set_attribute("a", "kept"),
        ]
    };
    let writes = || {
        vec![
            write(2, "LOST"),
            append("LOST"),
            map_set([("k", "LOST"), ("l", "LOST")]),
            map_set_header("LOST"),
            set_attribute("a", "LOST"),
            set_attribute("b", "LOST"),
        ]
    };
    let failures: [(&str, Op, ErrorKind); 4] = [
        ("create", create(), Exists),
        ("get-attribute", get_attribute("none"), NotFound),
        ("map-set", map_set([("fine", "fine"), ("", "not")]), Invalid),
        ("assert-absent", Op::AssertAbsent, Exists),
    ];
    let mut cases = Vec::new();
    for (name, op, kind) in failures {
        let mut list = writes();
        list.insert(3, op);
        cases.push(case(name).given(held()).when(list).fails(kind, name));
    }
    let mut removal = writes();
    removal.extend([Op::Remove, read_all()]);
    cases.push(case("after a removal").given(held()).when(removal).fails(NotFound, "read"));
    let mut cleared = vec![Op::MapClear, truncate(0)];
    cleared.extend([remove_attribute("a"), remove_attribute("a")]);
    cases.push(
        case("after a clear").given(held()).when(cleared).fails(NotFound, "remove-attribute"),
    );
    try_all(&bench, cases).await;
}

async fn an_error_names_operation_and_object(bench: Bench) {
    let object = bench.object("absent");
    let error = object.refuses([Op::AssertAbsent, read_all()]).await;
    assert_eq!(error.operation(), Some("read"), "{error}");
    assert_eq!(error.object(), Some(object.id().to_string().as_str()), "{error}");
}

async fn a_failed_creation_leaves_no_object(bench: Bench) {
    let cases = [
        case("written, then failed")
            .when([write(0, "x"), map_set([("k", "v")]), get_attribute("none")])
            .fails(NotFound, "get-attribute"),
        case("created twice").when([create(), create()]).fails(Exists, "create"),
    ];
    try_all(&bench, cases).await;
}

async fn removal_and_creation_in_one_list(bench: Bench) {
    let object = bench.object_with("a", [write(0, "old"), map_set([("k", "old")])]).await;
    let before = object.version().await.expect("it exists");
    let ops = [Op::Remove, create(), append("new"), map_range("", "", 9), read_all()];
    let reply = object.replies(ops).await;
    let expected = [OpResult::Offset(0), range::<&str, &str>([]), data("new")];
    assert_eq!(reply.results[2..], expected);
    assert!(reply.version > before);

    let reply = object.replies([write(0, "x"), Op::Remove]).await;
    assert_eq!(reply.version, 0, "the version of an object that is gone");
    assert_eq!(object.content().await, None);
}
