//! Chooses how the workload draws the values of a column, from the values that requests had.

use std::collections::BTreeMap;

use nacre_brados::{Base, Value};
use nacre_class::ColumnSeen;

use super::asked::{Asked, Asking};
use crate::workload::{Column, MAX_DRAWN_BYTES, MAX_DRAWN_TEXTS};

/// A column counts up if at least this share of its samples is greater than all samples before. The
/// share is below 1, because the samples come from requests for several objects, and each object
/// counts separately. Of random numbers, hardly any is greater than all before.
const RISING: f64 = 0.3;
/// Numbers that differ as often as this hardly repeat.
const FRESH: f64 = 0.6;
/// A column with at most this many different numbers does not name rows. Its numbers are, for
/// example, choices or epochs.
const FEW: f64 = 8.0;
/// A column hardly changes if at most this share of its values are different. An example is an
/// epoch, which rises only sometimes.
const HARDLY_CHANGING: f64 = 0.05;

/// Of the methods that add rows and have a column that counts up, the one that is called most
/// often.
pub(super) fn counting_method<'a>(asked: &[Asked<'a>]) -> Option<&'a str> {
    let counts_up = |method: &&Asked<'_>| method.grows && method.seen.columns.iter().any(counts_up);
    let often = |method: &&Asked<'_>| (method.seen.requests, method.seen.looked_into());
    let most = asked.iter().filter(counts_up).max_by_key(often)?;
    Some(most.name)
}

/// The values of number columns that are no keys, over all methods, by the columns' names.
pub(super) fn settings<'a>(asked: &[Asked<'a>]) -> BTreeMap<&'a str, ColumnSeen> {
    let mut settings = BTreeMap::<&str, ColumnSeen>::new();
    for method in asked {
        for (asking, seen) in method.columns.iter().zip(&method.seen.columns) {
            if asking.base == Base::Int && !asking.is_key {
                settings.entry(asking.name).or_default().add(seen);
            }
        }
    }
    settings
}

fn counts_up(column: &ColumnSeen) -> bool {
    let Some((lowest, highest)) = column.range else { return false };
    let numbers = numbers(column);
    let most = highest.saturating_sub(lowest).saturating_add(1) as f64;
    let is_fresh = column.distinct().min(most) >= FRESH * numbers;
    lowest < highest && numbers > 1.0 && (rises(column) || is_fresh)
}

fn rises(column: &ColumnSeen) -> bool {
    column.risen as f64 >= RISING * numbers(column)
}

/// How many of the column's samples are not nil.
fn numbers(column: &ColumnSeen) -> f64 {
    column.seen.saturating_sub(column.nils) as f64
}

fn highest(column: &ColumnSeen) -> i64 {
    column.range.map_or(0, |(_, highest)| highest)
}

/// How a method's numbers relate to the numbers that count up.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// The numbers count up.
    Counts,
    /// The numbers may be some of those that count up.
    Uses,
    /// No numbers of the class count up.
    Alone,
}

pub(super) fn column_of(
    method: &Asked<'_>,
    asking: &Asking<'_>,
    own: &ColumnSeen,
    settings: &BTreeMap<&str, ColumnSeen>,
    role: Role,
) -> Column {
    if own.nils == own.seen {
        return Column::Is(Value::Nil);
    }
    let seen = settings.get(asking.name).filter(|_| !asking.is_key).unwrap_or(own);
    let highest = highest(seen);
    let few = if asking.is_key { 1.0 } else { FEW.max(HARDLY_CHANGING * numbers(seen)) };
    match (asking.base, role) {
        (Base::String | Base::Bytes, _) => text_of(own),
        (Base::Bool, _) => Column::Is(Value::Bool(self::highest(own) == 1)),
        (Base::Int, Role::Counts) if counts_up(own) => Column::Next,
        (Base::Int, _) if seen.distinct() <= few || highest < 1 => Column::Is(Value::Int(highest)),
        // The method stores this number, and a greater one each time. So the workload always sends
        // the greatest: a lower number would have no effect, and after a higher one the class would
        // refuse other requests.
        (Base::Int, Role::Uses) if method.writes && !asking.is_key && rises(own) => {
            Column::Is(Value::Int(highest))
        }
        (Base::Int, Role::Uses) => Column::Used,
        (Base::Int, _) => Column::Below(highest as u64 + 1),
    }
}

/// Adapts a column to the requests that fill an object. Such an object has no rows yet, so `used`
/// (one of the object's earlier numbers) has nothing to choose from. If the column is no key, the
/// greatest observed number takes the place of `used`.
pub(super) fn settled(
    asking: &Asking<'_>,
    column: Column,
    settings: &BTreeMap<&str, ColumnSeen>,
) -> Column {
    match settings.get(asking.name) {
        Some(seen) if column == Column::Used && !asking.is_key => {
            Column::Is(Value::Int(highest(seen)))
        }
        _ => column,
    }
}

fn text_of(seen: &ColumnSeen) -> Column {
    let texts = (seen.seen - seen.nils).max(1) as f64;
    let bytes = ((seen.bytes as f64 / texts).round() as usize).clamp(1, MAX_DRAWN_BYTES as usize);
    let distinct = seen.distinct();
    match distinct {
        ..=1.0 => Column::Bytes(bytes),
        _ if distinct >= FRESH * texts => Column::Text { bytes, count: MAX_DRAWN_TEXTS },
        _ => Column::Text { bytes, count: distinct as u64 },
    }
}
