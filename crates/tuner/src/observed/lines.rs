//! The lines of an observed workload: requests of a method by size, and requests that fill objects.

use nacre_brados::Value;
use nacre_class::MethodSeen;

use super::asked::Asked;
use crate::workload::{Column, Line, MAX_DRAWN_BYTES, Pattern};

/// Sizes of a method that are less than this share of its requests are left out.
const LEAST_SHARE: f64 = 0.02;
/// Weights of the mix add up to about this.
const WEIGHTS: f64 = 10_000.0;
/// How many bytes a request needs for a string column, in addition to the string.
const TEXT_BYTES: f64 = 5.0;
/// How many bytes a request needs for a number.
const NUMBER_BYTES: f64 = 9.0;
/// How many bytes a request needs for a boolean or nil.
const WORD_BYTES: f64 = 1.0;

/// The lines of a method: one for each size that its requests have.
pub(super) fn lines(method: &Asked<'_>, columns: &[Column], all: f64) -> Vec<Line> {
    let requests = method.seen.requests as f64;
    let sizes: Vec<(f64, f64)> = sizes(method.seen);
    let line = |(bytes, count): (f64, f64)| {
        let weight = (count / all * WEIGHTS).round().max(1.0) as u64;
        let columns = sized(columns, bytes);
        Line { count: weight, request: Pattern { method: method.name.to_owned(), columns } }
    };
    match is_sized(columns) {
        true => sizes.into_iter().map(line).collect(),
        false => vec![line((0.0, requests))],
    }
}

fn is_sized(columns: &[Column]) -> bool {
    columns.iter().any(|column| text_bytes(column).is_some())
}

fn text_bytes(column: &Column) -> Option<usize> {
    match column {
        Column::Bytes(bytes) | Column::Text { bytes, .. } => Some(*bytes),
        _ => None,
    }
}

/// The sizes of a method's requests, each with the number of requests of that size. The class
/// counted its requests by ranges of sizes. For each range this function chooses one size within
/// it, so that the total number of bytes is about right.
fn sizes(seen: &MethodSeen) -> Vec<(f64, f64)> {
    let requests = seen.requests as f64;
    let buckets: Vec<(f64, f64)> = (0_i32..)
        .zip(&seen.sizes)
        .map(|(at, count)| (f64::from(at).exp2(), *count as f64))
        .filter(|(_, count)| *count >= LEAST_SHARE * requests && *count > 0.0)
        .collect();
    let middle = |bound: f64| 0.75 * bound;
    let sum: f64 = buckets.iter().map(|(bound, count)| middle(*bound) * count).sum();
    let scale = if sum > 0.0 { seen.bytes as f64 / sum } else { 1.0 };
    let size =
        |(bound, count): (f64, f64)| ((middle(bound) * scale).clamp(bound / 2.0, bound), count);
    buckets.into_iter().map(size).collect()
}

/// The columns of a request of `bytes` bytes. The longest string gets the bytes that the other
/// columns leave.
fn sized(columns: &[Column], bytes: f64) -> Vec<Column> {
    let mut columns = columns.to_vec();
    let longest = (0..columns.len()).max_by_key(|at| text_bytes(&columns[*at]));
    let Some(longest) = longest.filter(|at| text_bytes(&columns[*at]).is_some()) else {
        return columns;
    };
    let others =
        columns.iter().enumerate().map(|(at, column)| match (text_bytes(column), column) {
            (Some(_), _) if at == longest => TEXT_BYTES,
            (Some(bytes), _) => TEXT_BYTES + bytes as f64,
            (None, Column::Is(Value::Nil | Value::Bool(_))) => WORD_BYTES,
            _ => NUMBER_BYTES,
        });
    let left = (bytes - others.sum::<f64>()).round().max(1.0) as usize;
    let left = left.min(MAX_DRAWN_BYTES as usize);
    match &mut columns[longest] {
        Column::Bytes(bytes) | Column::Text { bytes, .. } => *bytes = left,
        _ => {}
    }
    columns
}

/// The requests that fill an object: first one request of each writing method that adds no rows,
/// then `rows` requests of the methods that add rows. The latter are shared out by how often each
/// method was ever called, not only recently.
pub(super) fn fill(
    asked: &[Asked<'_>],
    columns: impl Fn(&Asked<'_>) -> Vec<Column>,
    rows: u64,
) -> Vec<Line> {
    let request = |method: &Asked<'_>| {
        let mut columns = columns(method);
        if method.seen.requests > 0 {
            columns = sized(&columns, method.seen.bytes as f64 / method.seen.requests as f64);
        }
        Pattern { method: method.name.to_owned(), columns }
    };
    let uses = |request: &Pattern| request.columns.contains(&Column::Used);
    let growing: Vec<_> = asked.iter().filter(|method| method.grows).collect();
    let others = asked.iter().filter(|method| method.writes && !method.grows).map(request);
    let once = others.filter(|one| !uses(one)).map(|request| Line { count: 1, request });
    let is_growing = growing.iter().any(|method| method.seen.requests > 0);
    let often = |method: &Asked<'_>| match is_growing {
        true => method.seen.requests,
        false => method.seen.looked_into(),
    };
    let growing = growing.into_iter().filter(|method| often(method) > 0);
    // Requests that refer to rows come after requests that make rows.
    let (after, first): (Vec<&Asked<'_>>, Vec<&Asked<'_>>) =
        growing.partition(|method| uses(&request(method)));
    let makers = if first.is_empty() { after } else { first };
    let all: u64 = makers.iter().map(|method| often(method)).sum();
    let grown = makers.into_iter().map(|method| {
        let count = (rows as f64 * often(method) as f64 / all as f64).round().max(1.0);
        Line { count: count as u64, request: request(method) }
    });
    once.chain(grown).collect()
}
