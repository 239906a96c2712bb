//! Tests of planning: a request goes to one destination, or is split and its replies are joined, or
//! is refused.

mod common;

use bytes::Bytes;
use common::rules;
use nacre_object::{Error, ErrorKind, Op, OpResult, Reply, Request};
use nacre_route::{Piece, RuleTable, join, plan};

fn table(text: &[&str]) -> RuleTable {
    let mut table = RuleTable::default();
    table.insert(rules(text)).unwrap();
    table
}

fn request(ops: Vec<Op>) -> Request {
    Request::new("data/x".parse().unwrap(), ops).unwrap()
}

fn read(offset: u64, length: u64) -> Op {
    Op::Read { offset, length }
}

fn write(offset: u64, text: &'static str) -> Op {
    Op::Write { offset, data: Bytes::from_static(text.as_bytes()) }
}

/// Plans a request of one op. Returns the rule and the op of each piece.
fn ways(table: &RuleTable, op: Op) -> Vec<(Option<i64>, Op)> {
    let request = request(vec![op]);
    let plan = plan(table, &request, None, None).unwrap();
    let way = |piece: &Piece| (piece.rule.map(|rule| rule.0), piece.ops.of(&request)[0].clone());
    plan.pieces.iter().map(way).collect()
}

#[test]
fn a_read_over_a_routed_and_an_unrouted_range_is_split() {
    let table = table(&["* r data/x 4..8 -> object spill/x"]);
    let expected = [(None, read(0, 4)), (Some(0), read(4, 4)), (None, read(8, 8))];
    assert_eq!(ways(&table, read(0, 16)), expected);
}

#[test]
fn a_write_is_split_with_its_bytes() {
    let table = table(&["* w data/x 4..8 -> object spill/x"]);
    assert_eq!(ways(&table, write(2, "abcd")), [(None, write(2, "ab")), (Some(0), write(4, "cd"))]);
}

#[test]
fn adjacent_ranges_with_the_same_destination_are_one_piece() {
    let one_way = ["* r data/x 0..4 -> object spill/x", "* r data/x 4..8 -> object spill/x"];
    let table = table(&one_way);
    assert_eq!(ways(&table, read(0, 8)), [(Some(0), read(0, 8))]);
    assert_eq!(ways(&table, read(0, 10)), [(Some(0), read(0, 8)), (None, read(8, 2))]);
}

#[test]
fn a_transaction_on_a_routed_and_an_unrouted_range_is_refused_with_the_reason() {
    let table = table(&["* w data/x 0..4 -> object spill/x"]);
    let both = request(vec![write(0, "ab"), write(8, "cd")]);
    let error = plan(&table, &both, None, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("0..2 to \"object spill/x\"") && text.contains("8..10 nowhere else"),
        "{text}"
    );
    let inside = request(vec![write(0, "ab"), write(2, "cd")]);
    assert_eq!(plan(&table, &inside, None, None).unwrap().pieces.len(), 1);
}

#[test]
fn an_op_on_the_whole_stream_has_one_destination_or_is_refused() {
    let ranged = table(&["* rw data/x 0..4 -> object spill/x"]);
    let whole = table(&["* rw data/x -> object spill/x"]);
    for op in [Op::Append { data: Bytes::from_static(b"a") }, Op::Stat, Op::Truncate { size: 0 }] {
        let request = request(vec![op]);
        let error = plan(&ranged, &request, None, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(plan(&whole, &request, None, None).unwrap().pieces.len(), 1);
    }
}

#[test]
fn an_io_whose_replies_bypass_the_switch_is_not_split() {
    let table = table(&["* r data/x 0..4 -> object spill/x reply-direct"]);
    let error = plan(&table, &request(vec![read(0, 8)]), None, None).unwrap_err();
    assert!(error.to_string().contains("straight to its source"), "{error}");
}

fn data(version: u64, text: &'static str) -> Result<Reply, Error> {
    let data = Bytes::from_static(text.as_bytes());
    Ok(Reply { version, results: vec![OpResult::Data(data)] })
}

fn joined(replies: Vec<Result<Reply, Error>>) -> Result<(u64, Bytes), Error> {
    let table = table(&["* r data/x 4..8 -> object spill/x"]);
    let plan = plan(&table, &request(vec![read(0, 12)]), None, None).unwrap();
    let reply = join(&plan.pieces, replies)?;
    let [OpResult::Data(data)] = reply.results.as_slice() else { panic!("{reply:?}") };
    Ok((reply.version, data.clone()))
}

#[test]
fn the_replies_of_a_split_read_are_joined_with_zeros_in_gaps() {
    let text = |replies| joined(replies).unwrap();
    let full = text(vec![data(3, "abcd"), data(9, "efgh"), data(3, "ijkl")]);
    assert_eq!(full, (9, Bytes::from_static(b"abcdefghijkl")));
    let gap = text(vec![data(3, "ab"), data(9, "efgh"), data(3, "")]);
    assert_eq!(gap.1, Bytes::from_static(b"ab\0\0efgh"));
    let ended = text(vec![data(3, "abcd"), data(9, ""), data(3, "")]);
    assert_eq!(ended.1, Bytes::from_static(b"abcd"));
}

#[test]
fn a_piece_whose_object_is_absent_is_empty_unless_all_are() {
    let absent = || Err(Error::not_found("no such object"));
    let (_, bytes) = joined(vec![absent(), data(9, "efgh"), absent()]).unwrap();
    assert_eq!(bytes, Bytes::from_static(b"\0\0\0\0efgh"));
    let error = joined(vec![absent(), absent(), absent()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = joined(vec![data(3, "abcd"), Err(Error::corrupt("bad")), absent()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_partly_failed_write_reports_that_a_part_is_done() {
    let table = table(&["* w data/x 4..8 -> object spill/x"]);
    let plan = plan(&table, &request(vec![write(2, "abcd")]), None, None).unwrap();
    let done = || Ok(Reply { version: 4, results: vec![OpResult::Done] });
    let full = || Err(Error::exhausted("no space"));
    assert_eq!(join(&plan.pieces, vec![done(), done()]).unwrap().version, 4);
    let partly = join(&plan.pieces, vec![done(), full()]).unwrap_err();
    assert_eq!(partly.kind(), ErrorKind::Unavailable);
    assert!(partly.to_string().contains("1 of 2 pieces"), "{partly}");
    let failed = join(&plan.pieces, vec![full(), full()]).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Exhausted);
}
