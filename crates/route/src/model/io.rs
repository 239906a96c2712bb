//! An IO, as rules see it: read-only, and without its data.

use std::fmt;

use nacre_object::{
    EntityName, Error, IoHeader, ObjectId, Op, Request, Result, TargetName, TenantName,
};

use super::{LayerName, Operation, Span, text};

/// One operation on one range of bytes of one object.
///
/// A request with several ops consists of several IOs: see [`touches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Io {
    /// The authenticated sender.
    pub source: EntityName,
    /// The tenant of the sender.
    pub tenant: TenantName,
    /// The layer that sent the IO to the switch, if a layer did.
    pub via: Option<LayerName>,
    /// What it does.
    pub operation: Operation,
    /// The object that the client asked for. It stays the same wherever rules send the IO.
    pub object: ObjectId,
    /// The bytes it touches; `None` if it touches none, such as reading an attribute.
    pub span: Option<Span>,
    /// The target that holds the object, if the switch is in front of several targets and has rules
    /// that name one of them; otherwise `None`.
    pub home: Option<TargetName>,
}

impl Io {
    /// The IO of one touch of a request.
    pub fn of(
        header: &IoHeader,
        via: Option<LayerName>,
        home: Option<TargetName>,
        touch: Touch,
    ) -> Self {
        Self {
            source: header.source.clone(),
            tenant: header.tenant.clone(),
            via,
            operation: touch.operation,
            object: header.object.clone(),
            span: touch.span,
            home,
        }
    }

    /// Parses `[entity:NAME] [tenant:NAME] [layer:NAME] OPERATION OBJECT [RANGE]`. If the range is
    /// missing, the IO concerns the whole object. If the source is missing, the sender is the local
    /// entity, and its tenant is the default one.
    ///
    /// # Errors
    /// `Invalid` if a word is missing, superfluous or wrong.
    pub fn parse(line: &str) -> Result<Self> {
        let words = text::words(line);
        let mut rest = words.as_slice();
        let (mut source, mut tenant, mut via) = (EntityName::local(), TenantName::standard(), None);
        while let [word, left @ ..] = rest {
            match word.split_once(':') {
                Some(("entity", name)) => source = name.parse()?,
                Some(("tenant", name)) => tenant = name.parse()?,
                Some(("layer", name)) => via = Some(name.parse()?),
                _ => break,
            }
            rest = left;
        }
        let wrong = || {
            Error::invalid(format!("{line:?} is no IO")).hint(
                "write [entity:NAME] [tenant:NAME] r|w|c|d OBJECT [RANGE], as in: entity:alice r data/vm1 0..4KiB",
            )
        };
        let (letter, object, span) = match rest {
            [letter, object] => (letter, object, Span::WHOLE),
            [letter, object, span] => (letter, object, Span::parse(span)?),
            _ => return Err(wrong()),
        };
        let mut letters = letter.chars();
        let operation = letters.next().and_then(Operation::from_letter).ok_or_else(wrong)?;
        if letters.next().is_some() {
            return Err(wrong());
        }
        let object = text::unescape(object)?.parse()?;
        Ok(Self { source, tenant, via, operation, object, span: Some(span), home: None })
    }
}

impl fmt::Display for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entity:{} tenant:{} ", self.source, self.tenant)?;
        if let Some(layer) = &self.via {
            write!(f, "layer:{layer} ")?;
        }
        write!(f, "{} {}", self.operation.letter(), text::escape(&self.object.to_string()))?;
        match self.span {
            Some(Span::WHOLE) => Ok(()),
            Some(span) => write!(f, " {span}"),
            None => f.write_str(" (no bytes)"),
        }
    }
}

/// An operation of a request on a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// What it does.
    pub operation: Operation,
    /// The bytes; `None` if it touches none.
    pub span: Option<Span>,
}

/// The IOs of which a request consists, without duplicates. An op that concerns the whole stream,
/// such as an append or a method call, touches [`Span::WHOLE`].
pub fn touches(request: &Request) -> Vec<Touch> {
    let mut all: Vec<Touch> = request.ops.iter().flat_map(touches_of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether an op of a request touches bytes.
pub fn touches_bytes(request: &Request) -> bool {
    request.ops.iter().flat_map(touches_of).any(|touch| touch.span.is_some())
}

fn touches_of(op: &Op) -> impl Iterator<Item = Touch> {
    let touch = |operation, span| (Touch { operation, span }, None);
    let bytes = |offset: u64, length: u64| Span::new(offset, offset.saturating_add(length));
    let (first, second) = match op {
        Op::Read { offset, length } => touch(Operation::Read, bytes(*offset, *length)),
        // A write without bytes may extend the stream.
        Op::Write { offset, data } => {
            let span = bytes(*offset, data.len() as u64).unwrap_or(Span::WHOLE);
            touch(Operation::Write, Some(span))
        }
        Op::Zero { offset, length } => touch(Operation::Write, bytes(*offset, *length)),
        Op::WriteFull { .. }
        | Op::Append { .. }
        | Op::Truncate { .. }
        | Op::Rollback { .. }
        | Op::WriteFullFrom { .. }
        | Op::SnapshotCreate { .. }
        | Op::SnapshotRemove { .. } => touch(Operation::Write, Some(Span::WHOLE)),
        Op::Stat
        | Op::AssertVersion(_)
        | Op::AssertExists
        | Op::AssertAbsent
        | Op::SnapshotList => touch(Operation::Read, Some(Span::WHOLE)),
        Op::Create { .. } | Op::CloneFrom { .. } => touch(Operation::Create, Some(Span::WHOLE)),
        Op::Remove => touch(Operation::Delete, Some(Span::WHOLE)),
        Op::Call(_) => {
            let whole = |operation| Touch { operation, span: Some(Span::WHOLE) };
            (whole(Operation::Read), Some(whole(Operation::Write)))
        }
        op if op.is_write() => touch(Operation::Write, None),
        _ => touch(Operation::Read, None),
    };
    std::iter::once(first).chain(second)
}
