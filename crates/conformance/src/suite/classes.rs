//! Class calls as part of transactions, by [`crate::TestClasses`].

use nacre_object::ErrorKind::{
    Conflict, Denied, Exhausted, Fault, Invalid, NotFound, Stale, Unsupported,
};
use nacre_object::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES, MAX_TRANSACTION_BYTES};
use nacre_object::{CallReply, Capability, Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;
use crate::test_classes::{FAILED_STATUS, TestClasses};

checks![
    needs: &[Capability::Classes], watches: false,
    a_method_reads_its_own_writes_and_the_lists,
    a_method_that_fails_leaves_the_object_untouched,
    a_method_may_go_on_after_an_error,
    a_call_of_another_version_is_stale,
    a_read_only_method_cannot_write,
    a_method_that_only_reads_changes_nothing,
    methods_see_the_whole_map_within_bounds,
    what_methods_write_and_say_is_bounded,
    calls_of_one_object_follow_one_another,
];

fn output(bytes: impl Into<bytes::Bytes>) -> OpResult {
    OpResult::Called(CallReply { status: 0, output: bytes.into() })
}

async fn a_method_reads_its_own_writes_and_the_lists(bench: Bench) {
    let done = OpResult::Done;
    let cases = [
        case("input and output")
            .given([create()])
            .when([call("echo", "in")])
            .answers([output("in")]),
        case("a write makes the object")
            .when([call("count", ""), call("count", ""), map_get(["count"])])
            .answers([output("1"), output("2"), values([Some("2")])]),
        case("a method sees the list's writes, and the list the method's")
            .given([append("ab")])
            .when([append("cd"), call("append", "ef"), append("gh"), call("size", ""), read_all()])
            .answers([
                OpResult::Offset(2),
                output("4"),
                OpResult::Offset(6),
                output("8"),
                data("abcdefgh"),
            ]),
        case("removal by a method")
            .given([append("ab")])
            .when([call("remove", ""), Op::AssertAbsent])
            .answers([output(""), done.clone()]),
        case("reading an absent object").when([call("size", "")]).fails(NotFound, "call"),
        case("no such method")
            .given([create()])
            .when([call("none", "")])
            .fails(Unsupported, "call"),
    ];
    try_all(&bench, cases).await;

    let object = bench.object_with("version", [create()]).await;
    let before = object.version().await.expect("it exists");
    assert_eq!(object.answers(call("version", "x")).await, output(before.to_string()));
}

async fn a_method_that_fails_leaves_the_object_untouched(bench: Bench) {
    let held = || {
        [
            write(0, "kept"),
            map_set([("k", "kept")]),
            map_set_header("kept"),
            set_attribute("a", "kept"),
        ]
    };
    let cases = [
        case("alone").given(held()).when([call("write-and-fail", "")]).fails(Conflict, "call"),
        case("with writes before it")
            .given(held())
            .when([append("lost"), call("count", ""), call("write-and-fail", "")])
            .fails(Conflict, "call"),
        case("on an absent object").when([call("write-and-fail", "")]).fails(Conflict, "call"),
        case("a fault").given(held()).when([call("fault", "")]).fails(Fault, "call"),
        case("a method that worked, undone by what follows")
            .given(held())
            .when([call("append", "lost"), create()])
            .fails(nacre_object::ErrorKind::Exists, "create"),
    ];
    try_all(&bench, cases).await;

    let object = bench.object("told");
    let error = object.refuses([call("write-and-fail", "")]).await;
    assert!(error.has_own_status(), "{error}");
    assert_eq!(error.status(), FAILED_STATUS, "{error}");
    let error = object.refuses([call("fault", "")]).await;
    let site = error.fault().expect("a fault says where");
    assert_eq!((site.program.as_str(), site.version, site.line), (TestClasses::CLASS, 7, Some(3)));
}

async fn a_method_may_go_on_after_an_error(bench: Bench) {
    let object = bench.object_with("a", [append("ab")]).await;
    assert_eq!(object.answers(call("catch", "cd")).await, output("4"));
    let content = object.content().await.expect("it exists");
    assert_eq!(content.stream, b"abcd");
    assert!(content.map.is_empty() && content.attributes.is_empty());
}

async fn a_call_of_another_version_is_stale(bench: Bench) {
    let object = bench.object_with("a", [create()]).await;
    let of_version = |version| {
        let Op::Call(mut call) = call("append", "x") else { unreachable!("it is a call") };
        call.version = version;
        Op::Call(call)
    };
    object.does([of_version(Some(TestClasses::VERSION))]).await;
    object.does([of_version(None)]).await;
    let error = object.refuses([of_version(Some(TestClasses::VERSION + 1))]).await;
    assert_eq!((error.kind(), error.operation()), (Stale, Some("call")), "{error}");
}

async fn a_read_only_method_cannot_write(bench: Bench) {
    let object = bench.object_with("a", [append("ab")]).await;
    let error = object.refuses([call("liar", "x")]).await;
    assert_eq!((error.kind(), error.operation()), (Denied, Some("call")), "{error}");
    let error = object.refuses([append("cd"), call("liar", "x")]).await;
    assert_eq!(error.kind(), Denied, "{error}");

    if bench.subject.has(Capability::Snapshots) {
        object.does([snapshot_create("s"), append("cd")]).await;
        let at = object.submit_at("s", [call("size", "")]).await.expect("a read-only method");
        assert_eq!(at.results, [output("2")]);
        let error = object.submit_at("s", [call("append", "x")]).await.expect_err("it may write");
        assert_eq!((error.kind(), error.operation()), (Invalid, Some("call")), "{error}");
    }
}

async fn a_method_that_only_reads_changes_nothing(bench: Bench) {
    let object = bench.object_with("a", [append("ab")]).await;
    let version = object.version().await.expect("it exists");
    let reply = object.replies([call("size", ""), call("echo", "x")]).await;
    assert_eq!(reply.version, version);
    let reply = object.replies([call("append", "")]).await;
    assert!(reply.version > version, "a method that wrote made a change");

    let absent = bench.object("absent");
    absent.does([call("echo", "x")]).await;
    assert_eq!(absent.content().await, None, "a call made an object");
}

async fn methods_see_the_whole_map_within_bounds(bench: Bench) {
    let object = bench.object("a");
    for part in 0..5 {
        object.does([map_set((0..1000).map(|i| (format!("{part}-{i:03}"), "v")))]).await;
    }
    let most = MAX_MAP_RANGE_ENTRIES.to_string();
    assert_eq!(object.answers(call("range", "")).await, output(most));
    assert_eq!(object.answers(call("range", "3-")).await, output("1000"));
    let edges = [&b"\xff"[..], &b"\xff\xff"[..], &b"\xff\x01"[..]];
    object.does([map_set(edges.map(|key| (key, "v")))]).await;
    for (prefix, expected) in [
        (&b""[..], &b"\xff\xff"[..]),
        (&b"2-"[..], &b"2-999"[..]),
        (&b"4"[..], &b"4-999"[..]),
        (&b"\xff"[..], &b"\xff\xff"[..]),
        (&b"\xff\x01"[..], &b"\xff\x01"[..]),
        (&b"0-00"[..], &b"0-009"[..]),
    ] {
        assert_eq!(object.answers(call("last", prefix)).await, output(expected), "{prefix:?}");
    }
    object.refuses([call("last", "5")]).await;
    let results = object
        .does([
            map_remove(["4-999"]),
            call("last", "4"),
            map_set([("4-9999", "v")]),
            call("last", "4"),
        ])
        .await;
    assert_eq!((&results[1], &results[3]), (&output("4-998"), &output("4-9999")), "own writes");
}

async fn what_methods_write_and_say_is_bounded(bench: Bench) {
    let object = bench.object("a");
    object.does([call("fill", MAX_TRANSACTION_BYTES.to_string())]).await;
    let size = object.answers(call("size", "")).await;
    assert_eq!(size, output(MAX_TRANSACTION_BYTES.to_string()));
    let result = object.submit([call("fill", (MAX_TRANSACTION_BYTES + 1).to_string())]).await;
    let error = result.expect_err("it writes too much");
    assert_eq!((error.kind(), error.operation()), (Exhausted, Some("call")), "{error}");
    assert_eq!(object.answers(call("size", "")).await, size, "it left a trace");

    let most = object.answers(call("output", MAX_REPLY_BYTES.to_string())).await;
    assert_eq!(most.payload_bytes(), MAX_REPLY_BYTES);
    let result = object.submit([call("output", (MAX_REPLY_BYTES + 1).to_string())]).await;
    assert_eq!(result.expect_err("it says too much").kind(), Exhausted);
}

async fn calls_of_one_object_follow_one_another(bench: Bench) {
    let object = bench.object("a");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let object = object.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    object.does([call("count", "")]).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    assert_eq!(object.answers(map_get(["count"])).await, values([Some("200")]));
}
