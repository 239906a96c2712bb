//! Guards: ops that change nothing, and only decide whether the transaction succeeds.

use nacre_object::ErrorKind::{Conflict, Exists, NotFound};
use nacre_object::{Op, OpResult};

use super::Bench;
use super::cases::{case, try_all};
use crate::ops::*;

checks![existence_guards, version_guards, a_guard_changes_nothing];

async fn existence_guards(bench: Bench) {
    let done = OpResult::Done;
    let cases = [
        case("there").given([create()]).when([Op::AssertExists]).answers([done.clone()]),
        case("not there").when([Op::AssertExists]).fails(NotFound, "assert-exists"),
        case("absent").when([Op::AssertAbsent]).answers([done.clone()]),
        case("not absent")
            .given([create()])
            .when([Op::AssertAbsent])
            .fails(Exists, "assert-absent"),
        case("guards see the list's own ops")
            .when([Op::AssertAbsent, create(), Op::AssertExists, Op::Remove, Op::AssertAbsent])
            .answers([
                OpResult::Done,
                OpResult::Done,
                OpResult::Done,
                OpResult::Done,
                OpResult::Done,
            ]),
        case("a guard behind a write undoes it")
            .when([write(0, "x"), Op::AssertAbsent])
            .fails(Exists, "assert-absent"),
    ];
    try_all(&bench, cases).await;
}

async fn version_guards(bench: Bench) {
    let object = bench.object("a");
    let error = object.refuses([Op::AssertVersion(0), write(0, "x")]).await;
    assert_eq!(error.kind(), NotFound, "{error}");

    let first = object.replies([write(0, "1")]).await.version;
    let second = object.replies([Op::AssertVersion(first), write(0, "2")]).await.version;
    let error = object.refuses([Op::AssertVersion(first), write(0, "3")]).await;
    assert_eq!((error.kind(), error.operation()), (Conflict, Some("assert-version")), "{error}");
    let error = object.refuses([Op::AssertVersion(second + 1), write(0, "3")]).await;
    assert_eq!(error.kind(), Conflict, "{error}");

    // The transaction's own writes have no version yet.
    object.does([write(0, "4"), Op::AssertVersion(second)]).await;
    assert_eq!(object.answers(read_all()).await, data("4"));
}

async fn a_guard_changes_nothing(bench: Bench) {
    let object = bench.object_with("a", [create()]).await;
    let version = object.version().await.expect("it exists");
    let reply = object.replies([Op::AssertExists, Op::AssertVersion(version), Op::Stat]).await;
    assert_eq!(reply.version, version);
    bench.object("absent").does([Op::AssertAbsent]).await;
    assert_eq!(bench.object("absent").version().await, None, "a guard made an object");
}
