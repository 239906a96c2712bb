//! Splits a request by the byte ranges of rules.

use nacre_object::{Error, Op, Request, Result, TargetName};

use crate::model::{Destination, Io, LayerName, Replies, RuleId, Span, touches};
use crate::rules::{RuleTable, Segment};

/// A part of a request that goes to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes; `None` if the request is not split.
    pub span: Option<Span>,
    /// The rule that decides about the piece. If it is `None`, no rule matches, and the piece keeps
    /// its destination.
    pub rule: Option<RuleId>,
    /// The ops of the piece.
    pub ops: PieceOps,
}

/// The ops of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceOps {
    /// All ops of the request, which is not split.
    All,
    /// A part of the request's only op.
    Part(Op),
}

impl PieceOps {
    /// The ops of a piece of this request.
    pub fn of<'a>(&'a self, request: &'a Request) -> &'a [Op] {
        match self {
            Self::All => &request.ops,
            Self::Part(op) => std::slice::from_ref(op),
        }
    }
}

/// The pieces of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pieces, in the order of their bytes. There is one if the request is not split.
    pub pieces: Vec<Piece>,
}

/// Plans a request. It splits a single read, write or zeroing where rules send the bytes to
/// different destinations. Any other request is a transaction, which must have one destination.
///
/// # Errors
/// `Unsupported`, with the rules, if a transaction or a request whose replies bypass the switch
/// would have several destinations; `Exhausted` as [`RuleTable::route`].
pub fn plan(
    table: &RuleTable,
    request: &Request,
    via: Option<&LayerName>,
    home: Option<&TargetName>,
) -> Result<Plan> {
    let mut all = vec![];
    for touch in touches(request) {
        all.extend(table.route(&Io::of(&request.header, via.cloned(), home.cloned(), touch))?);
    }
    // An op without bytes, such as an empty read, gives no IO that a rule could match.
    let first = all.first().copied().unwrap_or(Segment { span: None, rule: None });
    let differs = |segment: &&Segment| !goes_the_same_way(table, first.rule, segment.rule);
    let Some(other) = all.iter().find(differs).copied() else {
        let piece = Piece { span: None, rule: first.rule, ops: PieceOps::All };
        return Ok(Plan { pieces: vec![piece] });
    };
    let [op] = request.ops.as_slice() else {
        return Err(refuse(table, request, "a transaction", first, other));
    };
    let is_direct = |segment: &Segment| {
        let rule = segment.rule.and_then(|rule| table.get(rule));
        rule.is_some_and(|rule| rule.options.replies == Replies::Direct)
    };
    if all.iter().any(is_direct) {
        return Err(refuse(
            table,
            request,
            "an IO whose replies go straight to its source",
            first,
            other,
        ));
    }
    let pieces = merge(table, all).into_iter().map(|segment| {
        let op = segment.span.and_then(|span| part_of(op, span))?;
        Some(Piece { span: segment.span, rule: segment.rule, ops: PieceOps::Part(op) })
    });
    let what = format!("a {}", op.name());
    pieces
        .collect::<Option<Vec<_>>>()
        .map(|pieces| Plan { pieces })
        .ok_or_else(|| refuse(table, request, &what, first, other))
}

/// Whether two rules send IO to the same destination with the same options. Two rules that name a
/// program count as different, because the program decides about the bytes of each rule separately.
fn goes_the_same_way(table: &RuleTable, a: Option<RuleId>, b: Option<RuleId>) -> bool {
    let way = |rule: RuleId| {
        let rule = table.get(rule)?;
        let is_known = !matches!(rule.destination, Destination::Program(_));
        is_known.then_some((&rule.destination, rule.options))
    };
    a == b || matches!((a, b), (Some(a), Some(b)) if way(a).is_some() && way(a) == way(b))
}

/// Merges adjacent segments that go to the same destination into one.
fn merge(table: &RuleTable, segments: Vec<Segment>) -> Vec<Segment> {
    let mut merged: Vec<Segment> = vec![];
    for segment in segments {
        match (merged.last_mut(), segment.span) {
            (Some(last), Some(span)) if goes_the_same_way(table, last.rule, segment.rule) => {
                last.span = last.span.and_then(|last| Span::new(last.start(), span.end()));
            }
            _ => merged.push(segment),
        }
    }
    merged
}

/// Restricts an op to the bytes of `span`; `None` if the op cannot be split.
pub(crate) fn part_of(op: &Op, span: Span) -> Option<Op> {
    match op {
        Op::Read { .. } => Some(Op::Read { offset: span.start(), length: span.length() }),
        Op::Zero { .. } => Some(Op::Zero { offset: span.start(), length: span.length() }),
        Op::Write { offset, data } => {
            let from = usize::try_from(span.start().checked_sub(*offset)?).ok()?;
            let length = usize::try_from(span.length()).ok()?;
            let end = from.checked_add(length).filter(|end| *end <= data.len())?;
            Some(Op::Write { offset: span.start(), data: data.slice(from..end) })
        }
        _ => None,
    }
}

fn refuse(table: &RuleTable, request: &Request, what: &str, a: Segment, b: Segment) -> Error {
    let way = |segment: Segment| {
        let span = segment.span.map_or("the ops without bytes".to_owned(), |span| span.to_string());
        match segment.rule.and_then(|rule| table.get(rule)) {
            Some(rule) => format!("{span} to \"{}\" by the rule \"{rule}\"", rule.destination),
            None => format!("{span} nowhere else, because no rule matches"),
        }
    };
    Error::unsupported(format!(
        "{what} needs one destination: rules send {}, and {}",
        way(a),
        way(b)
    ))
    .during("route")
    .on(&request.header.object)
    .hint("send one request for each range, or give both ranges one rule")
}
