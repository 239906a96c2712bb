//! Tests the checkers of histories with hand-made histories: they must accept some and refuse
//! others. A checker that refused nothing would make all other tests pass.

use std::collections::BTreeMap;

use nacre_conformance::histories::{
    Cell, LogAnswer, LogCall, MapAnswer, MapCall, MapModel, ObjectAnswer, ObjectCall, ObjectModel,
    Operation, Recorder, check, check_log,
};

const EVER: u64 = u64::MAX;

fn op<C, A>(invoked: u64, returned: u64, call: C, answer: impl Into<Option<A>>) -> Operation<C, A> {
    Operation { call, answer: answer.into(), invoked, returned }
}

/// Each history with what is wrong with it, or nothing.
#[track_caller]
fn judge<O>(checker: impl Fn(&[O]) -> Result<(), String>, cases: Vec<(&str, bool, Vec<O>)>) {
    for (what, is_right, history) in cases {
        let verdict = checker(&history);
        assert_eq!(verdict.is_ok(), is_right, "{what}: {verdict:?}");
    }
}

#[test]
fn a_history_of_an_object_that_loses_or_repeats_a_change_is_refused() {
    use ObjectAnswer::{Differs, Done, Offset, Stream, Value};
    use ObjectCall::{Append, CompareAndSet, Get, Read, Replace, Set};
    let text = str::to_owned;
    let (set, get) = (|v: &str| Set(text("k"), text(v)), || Get(text("k")));
    let value = |v: &str| Value(Some(text(v)));
    let cas =
        |from: Option<&str>, to: &str| CompareAndSet(text("k"), from.map(str::to_owned), text(to));
    let cases = vec![
        ("nothing happened", true, vec![]),
        ("one after the other", true, vec![op(1, 2, set("a"), Done), op(3, 4, get(), value("a"))]),
        ("a lost write", false, vec![op(1, 2, set("a"), Done), op(3, 4, get(), Value(None))]),
        (
            "either of two writes at once",
            true,
            vec![op(1, 4, set("a"), Done), op(2, 3, set("b"), Done), op(5, 6, get(), value("a"))],
        ),
        (
            "a value that went back",
            false,
            vec![
                op(1, 10, set("a"), Done),
                op(2, 3, set("b"), Done),
                op(4, 5, get(), value("a")),
                op(6, 7, get(), value("b")),
            ],
        ),
        (
            "an unknown write that takes effect late",
            true,
            vec![
                op(1, EVER, set("a"), None),
                op(2, 3, get(), Value(None)),
                op(4, 5, set("b"), Done),
                op(6, 7, get(), value("a")),
            ],
        ),
        (
            "an unknown write that never does",
            true,
            vec![op(1, EVER, set("a"), None), op(2, 3, get(), Value(None))],
        ),
        (
            "an unknown write that takes effect twice",
            false,
            vec![op(1, EVER, Append(text("a")), None), op(2, 3, Read, Stream(text("aa")))],
        ),
        (
            "two who both swapped the same value",
            false,
            vec![op(1, 4, cas(None, "a"), Done), op(2, 3, cas(None, "b"), Done)],
        ),
        (
            "one who swapped and one who did not",
            true,
            vec![op(1, 4, cas(None, "a"), Done), op(2, 3, cas(None, "b"), Differs)],
        ),
        (
            "an append that replaced another",
            false,
            vec![
                op(1, 2, Replace(text("x")), Done),
                op(3, 6, Append(text("a")), Offset(1)),
                op(4, 5, Append(text("b")), Offset(1)),
            ],
        ),
    ];
    judge(check::<ObjectModel>, cases);
}

#[test]
fn a_map_that_begins_an_epoch_twice_or_loses_one_is_refused() {
    use MapAnswer::{Began, Conflict, Whole};
    let commit =
        |expected, value: &str| MapCall::Commit { expected, key: "k".into(), value: value.into() };
    let holds = |epoch, value: &str| Whole(epoch, BTreeMap::from([("k".into(), value.into())]));
    let cases = vec![
        (
            "one of two is faster",
            true,
            vec![
                op(1, 4, commit(0, "a"), Began(1)),
                op(2, 3, commit(0, "b"), Conflict),
                op(5, 6, MapCall::Get, holds(1, "a")),
            ],
        ),
        (
            "an epoch begun twice",
            false,
            vec![op(1, 4, commit(0, "a"), Began(1)), op(2, 3, commit(0, "b"), Began(1))],
        ),
        (
            "an epoch taken back",
            false,
            vec![
                op(1, 2, commit(0, "a"), Began(1)),
                op(3, 4, MapCall::Get, Whole(0, BTreeMap::new())),
            ],
        ),
        (
            "an epoch with another's entries",
            false,
            vec![op(1, 2, commit(0, "a"), Began(1)), op(3, 4, MapCall::Get, holds(1, "b"))],
        ),
        ("a conflict with nobody", false, vec![op(1, 2, commit(0, "a"), Conflict)]),
        (
            "a conflict with one who was never answered",
            true,
            vec![op(1, EVER, commit(0, "a"), None), op(2, 3, commit(0, "b"), Conflict)],
        ),
    ];
    judge(check::<MapModel>, cases);
}

/// The answer of a read that found a record.
fn data(record: u64) -> LogAnswer {
    LogAnswer::Holds(Cell::Data(record))
}

#[test]
fn a_log_whose_positions_are_written_twice_or_forgotten_is_refused() {
    use LogAnswer::{At, Holds};
    use LogCall::{Append, Read};
    let cases = vec![
        ("nothing happened", true, vec![]),
        ("an append is read", true, vec![op(1, 2, Append(7), At(0)), op(3, 4, Read(0), data(7))]),
        (
            "a hole that is written late",
            true,
            vec![
                op(1, 9, Append(7), At(0)),
                op(2, 3, Append(8), At(1)),
                op(4, 5, Read(1), data(8)),
                op(6, 7, Read(0), Holds(Cell::Unwritten)),
                op(10, 11, Read(0), data(7)),
            ],
        ),
        (
            "an acknowledged record that is not there",
            false,
            vec![op(1, 2, Append(7), At(0)), op(3, 4, Read(0), Holds(Cell::Unwritten))],
        ),
        (
            "two records at one position",
            false,
            vec![op(1, 4, Append(7), At(0)), op(2, 3, Append(8), At(0))],
        ),
        (
            "a read before the append",
            false,
            vec![op(1, 2, Read(0), data(7)), op(3, 4, Append(7), At(0))],
        ),
    ];
    judge(check_log, cases);
}

#[test]
fn a_log_that_overwrites_a_record_or_a_fill_is_refused() {
    use LogAnswer::{At, Done, Holds, Written};
    use LogCall::{Append, Fill, Read, Trim};
    let cases = vec![
        (
            "a fill over written data",
            false,
            vec![op(1, 2, Append(7), At(0)), op(3, 4, Fill(0), Done)],
        ),
        (
            "a hole that two clients fill",
            true,
            vec![op(1, 4, Fill(0), Done), op(2, 3, Fill(0), Done)],
        ),
        (
            "a hole that only one of two clients can fill",
            false,
            vec![op(1, 4, Fill(0), Done), op(2, 3, Fill(0), Written)],
        ),
        (
            "a filled hole that is written",
            false,
            vec![op(1, 2, Fill(0), Done), op(3, 4, Append(7), At(0))],
        ),
        (
            "a position that was seen filled and then written",
            false,
            vec![
                op(1, 8, Append(7), At(0)),
                op(2, 3, Read(0), Holds(Cell::Filled)),
                op(4, EVER, Fill(0), None),
            ],
        ),
        (
            "a position that is filled by who was given it instead of the tail",
            true,
            vec![
                op(1, 2, Fill(3), Done),
                op(3, 4, Read(5), Holds(Cell::Filled)),
                op(5, 6, Read(4), Holds(Cell::Unwritten)),
            ],
        ),
        (
            "a position that is filled before anybody fills or trims anything",
            false,
            vec![op(1, 2, Read(5), Holds(Cell::Filled)), op(3, 4, Fill(3), Done)],
        ),
        (
            "an unknown record that only a fill has met",
            true,
            vec![op(1, EVER, Append(7), None), op(2, 3, Fill(0), Written), op(4, 5, Trim(0), Done)],
        ),
        ("a fill that met nothing", false, vec![op(2, 3, Fill(0), Written)]),
    ];
    judge(check_log, cases);
}

#[test]
fn a_log_that_invents_a_record_or_brings_a_trimmed_one_back_is_refused() {
    use LogAnswer::{At, Done, Holds, Written};
    use LogCall::{Append, Fill, Read, Trim, TrimTo};
    let cases = vec![
        (
            "an unknown record that is found",
            true,
            vec![
                op(1, EVER, Append(7), None),
                op(2, 3, Fill(0), Written),
                op(4, 5, Read(0), data(7)),
            ],
        ),
        (
            "what was read is trimmed",
            true,
            vec![
                op(1, 2, Append(7), At(1)),
                op(3, 4, TrimTo(3), Done),
                op(5, 6, Read(1), Holds(Cell::Trimmed)),
            ],
        ),
        (
            "what was trimmed comes back",
            false,
            vec![op(1, 2, Append(7), At(1)), op(3, 4, Trim(1), Done), op(5, 6, Read(1), data(7))],
        ),
    ];
    judge(check_log, cases);
}

#[test]
fn a_log_whose_positions_contradict_the_order_of_appends_is_refused() {
    use LogAnswer::{At, Tail};
    use LogCall::{Append, Read};
    let cases = vec![
        (
            "a tail below what is acknowledged",
            false,
            vec![op(1, 2, Append(7), At(0)), op(3, 4, LogCall::Tail, Tail(0))],
        ),
        (
            "a tail that falls to where nothing is written",
            true,
            vec![op(1, 2, LogCall::Tail, Tail(9)), op(3, 4, LogCall::Tail, Tail(0))],
        ),
        (
            "a later record at an earlier position",
            false,
            vec![op(1, 2, Append(7), At(5)), op(3, 4, Append(8), At(4))],
        ),
        (
            "a record appended after a later one was read",
            false,
            vec![
                op(1, EVER, Append(7), None),
                op(2, 3, Read(5), data(7)),
                op(4, 5, Append(8), At(4)),
            ],
        ),
    ];
    judge(check_log, cases);
}

#[test]
fn a_log_that_doubles_or_invents_records_is_refused() {
    use LogAnswer::At;
    use LogCall::{Append, Read};
    let cases = vec![
        (
            "a record at two positions",
            false,
            vec![op(1, 2, Append(7), At(1)), op(3, 4, Read(0), data(7))],
        ),
        (
            "an unknown record at two positions",
            false,
            vec![
                op(1, EVER, Append(7), None),
                op(2, 3, Read(0), data(7)),
                op(4, 5, Read(1), data(7)),
            ],
        ),
        ("a record of nobody", false, vec![op(1, 2, Read(0), data(7))]),
    ];
    judge(check_log, cases);
}

#[test]
fn a_recorder_keeps_unknown_calls_and_drops_only_calls_that_never_happened() {
    let recorder = Recorder::<&str, u64>::default();
    let (known, unknown) = (recorder.begin("known"), recorder.begin("unknown"));
    let absent = recorder.begin("absent");
    recorder.end(known, 5);
    recorder.never_happened(absent);
    drop(unknown);
    let taken = recorder.operations();
    let seen: Vec<_> = taken.iter().map(|o| (o.call, o.answer, o.invoked, o.returned)).collect();
    assert_eq!(seen, [("known", Some(5), 1, 4), ("unknown", None, 2, u64::MAX)]);
}
