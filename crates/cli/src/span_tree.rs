//! Prints the spans of one trace, which come from several processes: as a tree for people, or as
//! one JSON document for each span.

use std::collections::{HashMap, HashSet};

use nacre::Span;
use nacre_telemetry::{Id, Value};
use serde::Serialize;

use crate::out::table;

/// How many spans the text output shows. The JSON output has all of them.
const MAX_SHOWN: usize = 400;

/// A span, and where it was.
#[derive(Debug, Clone, Serialize)]
pub struct Located {
    /// The node, or `client`.
    pub process: String,
    /// The span.
    #[serde(flatten)]
    pub span: Span,
}

/// Orders the spans as a tree, and adds the depth of each. A span comes before its children, and
/// siblings are in the order of their start. A span whose parent is unknown is at the root.
fn in_order(spans: &[Located]) -> Vec<(usize, &Located)> {
    let known: HashSet<Id> = spans.iter().map(|each| each.span.span_id).collect();
    let mut below: HashMap<Id, Vec<&Located>> = HashMap::new();
    for each in spans {
        let parent = Some(each.span.parent).filter(|parent| known.contains(parent));
        below.entry(parent.unwrap_or(Id::NONE)).or_default().push(each);
    }
    for parts in below.values_mut() {
        // The longer one first, if both seem to begin in the same microsecond.
        parts.sort_by_key(|each| {
            (each.span.start_micros, std::cmp::Reverse(each.span.duration_micros))
        });
    }
    let mut waiting: Vec<_> = below.remove(&Id::NONE).unwrap_or_default();
    waiting.reverse();
    let mut waiting: Vec<_> = waiting.into_iter().map(|each| (0, each)).collect();
    let mut ordered = Vec::with_capacity(spans.len());
    while let Some((depth, each)) = waiting.pop() {
        ordered.push((depth, each));
        // Removing the children here prevents an endless loop if spans name each other as parents.
        let parts = below.remove(&each.span.span_id).unwrap_or_default();
        waiting.extend(parts.into_iter().rev().map(|part| (depth + 1, part)));
    }
    ordered
}

/// A trace for a person: offsets from its beginning and durations in microseconds.
pub fn render(trace_id: Id, spans: &[Located]) -> String {
    let began = spans.iter().map(|each| each.span.start_micros).min().unwrap_or_default();
    let ordered = in_order(spans);
    let row = |(depth, each): &(usize, &Located)| {
        vec![
            format!("{:>8}", each.span.start_micros - began),
            format!("{:>8}", each.span.duration_micros),
            each.process.clone(),
            format!("{}{}", "  ".repeat(*depth), each.span.name),
            fields(&each.span),
        ]
    };
    let rows: Vec<_> = ordered.iter().take(MAX_SHOWN).map(row).collect();
    let header = ["start us", "      us", "process", "span", ""];
    let more = match ordered.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        more => format!("\nand {more} more: --json shows all"),
    };
    format!("trace {trace_id}\n{}{more}", table(&header, &rows))
}

/// The fields of a span for a person.
pub fn fields(span: &Span) -> String {
    let field = |(name, value): (&str, &Value)| match value {
        Value::Number(number) => format!("{name}={number}"),
        Value::Text(text) => format!("{name}={text}"),
    };
    span.fields.iter().map(field).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_telemetry::Fields;

    fn span(span_id: u64, parent: u64, start_micros: u64) -> Located {
        let (span_id, parent) = (Id(span_id), Id(parent));
        let span = Span {
            trace_id: Id(1),
            span_id,
            parent,
            name: "s".into(),
            start_micros,
            duration_micros: 1,
            fields: Fields::default(),
        };
        Located { process: "p".into(), span }
    }

    #[test]
    fn child_spans_stand_below_their_parent_in_order_of_time_and_orphans_at_the_root() {
        let spans = [span(3, 2, 7), span(9, 8, 9), span(4, 2, 6), span(2, 0, 5)];
        let order: Vec<_> =
            in_order(&spans).iter().map(|(depth, each)| (*depth, each.span.span_id.0)).collect();
        assert_eq!(order, [(0, 2), (1, 4), (1, 3), (0, 9)]);
    }
}
