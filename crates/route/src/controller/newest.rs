//! Locates the newest bytes of objects, from what endpoints report.

use std::collections::BTreeMap;

use nacre_object::ObjectId;

use crate::model::{ApplicationName, Destination, Span};
use crate::rules::Placement;
use crate::switch::{Placed, Stamp};

/// Bytes of an object that an endpoint reports. Endpoints store the rule that sent the bytes there,
/// so that rules can be recovered (sRoute paper, section 3.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object that the client wrote.
    pub object: ObjectId,
    /// The bytes.
    pub span: Span,
    /// The stamp of the change that wrote them.
    pub stamp: Stamp,
    /// Where the bytes are.
    pub destination: Destination,
    /// The application whose rule sent them there.
    pub application: ApplicationName,
}

/// For each byte, the location with the latest stamp.
pub fn newest(found: Vec<Found>) -> Vec<Placed> {
    let mut by_object: BTreeMap<ObjectId, Vec<Found>> = BTreeMap::new();
    for one in found {
        by_object.entry(one.object.clone()).or_default().push(one);
    }
    by_object.into_values().flat_map(newest_of_object).collect()
}

/// Processes the reports from the newest to the oldest. The newest report that contains a byte says
/// where the byte is.
fn newest_of_object(mut found: Vec<Found>) -> Vec<Placed> {
    found.sort_by(|a, b| b.stamp.cmp(&a.stamp));
    let mut painted: BTreeMap<u64, u64> = BTreeMap::new();
    let mut placed = vec![];
    for Found { object, span, destination, application, .. } in found {
        for span in gaps(&painted, span) {
            painted.insert(span.start(), span.end());
            let (destination, application) = (destination.clone(), application.clone());
            let placement = Placement { span, destination, application };
            placed.push(Placed { object: object.clone(), placement });
        }
    }
    placed.sort_by_key(|placed| placed.placement.span);
    placed
}

fn gaps(painted: &BTreeMap<u64, u64>, span: Span) -> Vec<Span> {
    let before = painted.range(..=span.start()).next_back();
    let mut at = before.map_or(span.start(), |(_, end)| span.start().max(*end));
    let mut gaps = vec![];
    for (start, end) in painted.range(span.start()..span.end()) {
        gaps.extend(Span::new(at, *start));
        at = at.max(*end);
    }
    gaps.extend(Span::new(at, span.end()));
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(span: &str, counter: u64, object: &str) -> Found {
        Found {
            object: "data/x".parse().unwrap(),
            span: Span::parse(span).unwrap(),
            stamp: Stamp { counter, switch: "s".parse().unwrap() },
            destination: Destination::Object(object.parse().unwrap()),
            application: "tail".parse().unwrap(),
        }
    }

    #[test]
    fn each_byte_is_placed_where_its_latest_stamp_is() {
        let all = vec![
            found("0..100", 1, "spill/a"),
            found("40..60", 3, "spill/b"),
            found("50..120", 2, "spill/c"),
        ];
        let told = |all| {
            let placed = newest(all).into_iter().map(|placed| placed.placement);
            placed.map(|p| format!("{} {}", p.span, p.destination)).collect::<Vec<_>>()
        };
        let expected = ["0..40 object spill/a", "40..60 object spill/b", "60..120 object spill/c"];
        assert_eq!(told(all.clone()), expected);
        assert_eq!(
            told(all.into_iter().rev().collect()),
            expected,
            "in whatever order they are told"
        );
    }
}
