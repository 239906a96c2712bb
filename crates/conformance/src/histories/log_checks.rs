//! Checks histories of a shared log against the promises of CORFU.
//!
//! A log is not linearizable as a whole: a client takes a position first and writes its record
//! there later. Meanwhile a reader finds nothing at the position, although later positions are
//! written. So the promises are checked in three parts, each over all clients:
//!
//! - **order**: if a record is appended after another one was acknowledged or read, its position is
//!   greater. A tail is always above every record that was acknowledged or read before;
//! - **positions**: each position is a register that is written once. If one client has read a
//!   record there, all later reads return the same, unless the position is trimmed. Positions do
//!   not depend on each other, so each is checked by itself;
//! - **exactly once**: a record is at one position.

use std::collections::{BTreeMap, BTreeSet};

use super::{Model, Operation, check};

/// A call of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogCall {
    /// Append the record with this number. No two records have the same number.
    Append(u64),
    /// What a position holds.
    Read(u64),
    /// Fill a position.
    Fill(u64),
    /// Trim a position.
    Trim(u64),
    /// Trim all positions up to this one.
    TrimTo(u64),
    /// The tail.
    Tail,
}

/// What a position holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cell {
    /// Nothing yet.
    #[default]
    Unwritten,
    /// The record of this number.
    Data(u64),
    /// Filled: there will never be a record here.
    Filled,
    /// Trimmed: perhaps a record was here before.
    Trimmed,
}

/// The answer of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogAnswer {
    /// The record is at this position.
    At(u64),
    /// The content of the position.
    Holds(Cell),
    /// The position was filled or trimmed, as requested.
    Done,
    /// The position cannot be filled, because it holds a record.
    Written,
    /// The tail.
    Tail(u64),
}

type LogOperation = Operation<LogCall, LogAnswer>;

/// Checks a history of a log against the promises of CORFU.
///
/// # Errors
/// The first broken promise, with the part of the history that shows it.
pub fn check_log(operations: &[LogOperation]) -> Result<(), String> {
    check_exactly_once(operations)?;
    // The position of an append without an answer is unknown, so the append says nothing about the
    // order.
    let ordered: Vec<_> = operations.iter().filter(|o| o.answer.is_some()).cloned().collect();
    check::<Order>(&ordered).map_err(|text| format!("order: {text}"))?;
    for position in positions_of(operations) {
        check::<Position>(&calls_on(position, operations))
            .map_err(|text| format!("position {position}: {text}"))?;
    }
    Ok(())
}

/// Where a call says that a record is.
fn sighting(operation: &LogOperation) -> Option<(u64, u64)> {
    match (&operation.call, &operation.answer) {
        (LogCall::Append(record), Some(LogAnswer::At(position))) => Some((*record, *position)),
        (LogCall::Read(position), Some(LogAnswer::Holds(Cell::Data(record)))) => {
            Some((*record, *position))
        }
        _ => None,
    }
}

fn check_exactly_once(operations: &[LogOperation]) -> Result<(), String> {
    let appended = |operation: &LogOperation| match operation.call {
        LogCall::Append(record) => Some(record),
        _ => None,
    };
    let appended: BTreeSet<_> = operations.iter().filter_map(appended).collect();
    let mut places = BTreeMap::new();
    for (record, position) in operations.iter().filter_map(sighting) {
        if !appended.contains(&record) {
            return Err(format!("record {record} at {position} was never appended"));
        }
        let other = *places.entry(record).or_insert(position);
        if other != position {
            return Err(format!("record {record} is at {other} and at {position}"));
        }
    }
    Ok(())
}

/// The greatest position seen written.
#[derive(Debug)]
struct Order;

impl Model for Order {
    type State = Option<u64>;
    type Call = LogCall;
    type Answer = LogAnswer;

    fn step(
        greatest: &Option<u64>,
        call: &LogCall,
        answer: Option<&LogAnswer>,
    ) -> Option<Option<u64>> {
        match (call, answer) {
            (LogCall::Append(_), Some(LogAnswer::At(position))) => {
                (Some(*position) > *greatest).then_some(Some(*position))
            }
            (LogCall::Read(position), Some(LogAnswer::Holds(Cell::Data(_)))) => {
                Some((*greatest).max(Some(*position)))
            }
            // A tail may be lower than an earlier one, because unwritten positions are issued
            // again.
            (LogCall::Tail, Some(LogAnswer::Tail(tail))) => {
                (*greatest < Some(*tail)).then_some(*greatest)
            }
            _ => Some(*greatest),
        }
    }
}

/// What is done to one position.
#[derive(Debug, Clone)]
enum OnPosition {
    Write(u64),
    Read,
    Fill,
    Trim,
}

/// One position.
#[derive(Debug)]
struct Position;

impl Model for Position {
    type State = Cell;
    type Call = OnPosition;
    type Answer = LogAnswer;

    fn step(cell: &Cell, call: &OnPosition, answer: Option<&LogAnswer>) -> Option<Cell> {
        let is_unwritten = *cell == Cell::Unwritten;
        let (expected, next) = match call {
            // A write with an answer was accepted.
            OnPosition::Write(record) if is_unwritten => (LogAnswer::Done, Cell::Data(*record)),
            OnPosition::Write(_) => return answer.is_none().then_some(*cell),
            OnPosition::Read => (LogAnswer::Holds(*cell), *cell),
            OnPosition::Fill if is_unwritten => (LogAnswer::Done, Cell::Filled),
            OnPosition::Fill if matches!(cell, Cell::Data(_)) => (LogAnswer::Written, *cell),
            OnPosition::Fill => (LogAnswer::Done, *cell),
            OnPosition::Trim => (LogAnswer::Done, Cell::Trimmed),
        };
        answer.is_none_or(|answer| *answer == expected).then_some(next)
    }
}

fn positions_of(operations: &[LogOperation]) -> BTreeSet<u64> {
    let positions = operations.iter().filter_map(|operation| match operation.call {
        LogCall::Append(_) => sighting(operation).map(|(_, position)| position),
        LogCall::Read(position) | LogCall::Fill(position) | LogCall::Trim(position) => {
            Some(position)
        }
        LogCall::TrimTo(_) | LogCall::Tail => None,
    });
    positions.collect()
}

/// The part of a history that concerns a position.
fn calls_on(position: u64, operations: &[LogOperation]) -> Vec<Operation<OnPosition, LogAnswer>> {
    let read_here = |record: u64| {
        operations.iter().any(|operation| sighting(operation) == Some((record, position)))
    };
    let concerns = |operation: &LogOperation| {
        let Operation { call, answer, invoked, returned } = operation.clone();
        let on = match call {
            LogCall::Append(record) if answer == Some(LogAnswer::At(position)) => {
                let (call, answer) = (OnPosition::Write(record), Some(LogAnswer::Done));
                return Some(Operation { call, answer, invoked, returned });
            }
            // An append without an answer may have written its record at one position. If a client
            // read the record at this position, the append wrote it here.
            LogCall::Append(record) if answer.is_none() && read_here(record) => {
                OnPosition::Write(record)
            }
            LogCall::Append(record) if answer.is_none() && !is_seen(record, operations) => {
                OnPosition::Write(record)
            }
            LogCall::Read(at) if at == position => OnPosition::Read,
            LogCall::Fill(at) if at == position => OnPosition::Fill,
            LogCall::Trim(at) if at == position => OnPosition::Trim,
            LogCall::TrimTo(at) if at >= position => OnPosition::Trim,
            _ => return None,
        };
        Some(Operation { call: on, answer, invoked, returned })
    };
    let mut calls: Vec<_> = operations.iter().filter_map(concerns).collect();
    calls.extend(unasked_fill(position, operations));
    // A read without an answer has no effect and says nothing.
    calls.retain(|call| call.answer.is_some() || !matches!(call.call, OnPosition::Read));
    calls
}

/// A fill of this position that no call in the history requested. To fill or trim a position at the
/// tail, a client takes a position from the sequencer. If it gets a later one than it wanted, it
/// fills that one too, because readers would wait for it. This can happen at any time after the
/// first fill or trim of a lower position began.
fn unasked_fill(
    position: u64,
    operations: &[LogOperation],
) -> Option<Operation<OnPosition, LogAnswer>> {
    let filled = (&LogCall::Read(position), &Some(LogAnswer::Holds(Cell::Filled)));
    operations.iter().find(|operation| (&operation.call, &operation.answer) == filled)?;
    let takes_tail = |operation: &&LogOperation| matches!(operation.call, LogCall::Fill(at) | LogCall::Trim(at) if at < position);
    let invoked = operations.iter().filter(takes_tail).map(|operation| operation.invoked).min()?;
    Some(Operation { call: OnPosition::Fill, answer: None, invoked, returned: u64::MAX })
}

fn is_seen(record: u64, operations: &[LogOperation]) -> bool {
    operations.iter().filter_map(sighting).any(|(seen, _)| seen == record)
}
