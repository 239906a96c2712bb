//! Decides what a re-encoding waypoint does with each op of a request.
//!
//! The bytes of an object under such a waypoint are all encoded, or none are ([`Content`]). Encoded
//! bytes have no gaps, because a gap would read as decoded zeros. So the waypoint writes encoded
//! zeros where an op would leave zeros: at a write past the end, a truncation that grows, and a
//! zeroing. It must know the end of the object for that. The end is certain only while the request
//! has the object for itself, so the waypoint asks for that ([`Coded::NeedsObject`]).

use bytes::Bytes;
use nacre_object::{Error, Op, Result};

use super::{MARK_ATTRIBUTE, Mark};
use crate::limits::MAX_FILLED_BYTES;

/// The bytes of an object, as a waypoint finds them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// There are none. The object may have a mark all the same, or may not exist.
    Empty {
        /// Whether it has the mark of the waypoint.
        is_marked: bool,
    },
    /// The bytes are not encoded, because the object had bytes before a rule sent its IO through a
    /// waypoint.
    Plain {
        /// How many bytes.
        end: u64,
    },
    /// The waypoint has encoded them.
    Encoded {
        /// How many bytes.
        end: u64,
    },
    /// Other code has encoded them.
    Foreign(Mark),
    /// An earlier op of the request replaces them by those of a snapshot.
    Unknown,
}

impl Content {
    /// What an object has, of which this mark and this length are known.
    pub fn of(own: &Mark, mark: Option<Mark>, end: u64) -> Self {
        match mark {
            mark if end == 0 => {
                Self::Empty { is_marked: mark.is_some_and(|mark| mark.is_same_code(own)) }
            }
            Some(mark) if mark.is_same_code(own) => Self::Encoded { end },
            Some(mark) => Self::Foreign(mark),
            None => Self::Plain { end },
        }
    }
}

/// The way of a request through the waypoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// It is a single read or write. Other IO of other bytes of the object is in flight.
    Shared,
    /// No other IO of the object is in flight.
    Alone,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coded {
    /// These ops take its place.
    Ops(Vec<CodedOp>),
    /// The object needs the mark first. Then the request is coded again.
    NeedsMark,
    /// The request must have the object for itself. Then it is coded again.
    NeedsObject,
}

/// An op in place of one of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodedOp {
    /// The op. Its data is not encoded yet.
    pub op: Op,
    /// The offset at which its data is encoded; `None` if it is sent as it is.
    pub encode_at: Option<u64>,
    /// What the client gets for it.
    pub answered: Answered,
}

/// What the client gets for an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The result of the op.
    AsItIs,
    /// The bytes of the op, decoded at this offset.
    Decoded(u64),
    /// This offset, to which an append went.
    Offset(u64),
    /// Nothing: the client has not sent the op.
    Dropped,
}

/// Codes a request: says which ops take the place of those of the client.
///
/// # Errors
/// `Unsupported` for an op that would see or leave bytes in the wrong encoding.
pub fn code(own: &Mark, content: Content, ops: &[Op], way: Way) -> Result<Coded> {
    if way == Way::Shared {
        match (ops, &content) {
            ([Op::Write { offset, data }], Content::Empty { is_marked }) if !data.is_empty() => {
                match (offset, is_marked) {
                    (0, true) => {}
                    (0, false) => return Ok(Coded::NeedsMark),
                    _ => return Ok(Coded::NeedsObject),
                }
            }
            ([Op::Write { offset, .. }], Content::Encoded { end }) if offset > end => {
                return Ok(Coded::NeedsObject);
            }
            ([Op::Read { .. } | Op::Write { .. }], _) => {}
            _ => return Ok(Coded::NeedsObject),
        }
    }
    let mut coding = Coding { own, content, coded: vec![], filled: 0 };
    for op in ops {
        coding.add(op).map_err(|error| error.during(op.name()))?;
    }
    Ok(Coded::Ops(coding.coded))
}

struct Coding<'a> {
    own: &'a Mark,
    /// The bytes before the next op.
    content: Content,
    coded: Vec<CodedOp>,
    /// The zeros that the request writes.
    filled: u64,
}

impl Coding<'_> {
    fn add(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Read { offset, .. } => {
                self.check_known()?;
                let is_encoded = matches!(self.content, Content::Encoded { .. });
                let decoded = Answered::Decoded(*offset);
                self.push(op.clone(), None, if is_encoded { decoded } else { Answered::AsItIs });
            }
            Op::Write { offset, data } => {
                self.check_known()?;
                self.write(*offset, data.clone(), op, Answered::AsItIs)?;
            }
            Op::Append { data } => {
                self.check_known()?;
                match self.end() {
                    Some(end) => self.write(end, data.clone(), op, Answered::Offset(end))?,
                    None => self.keep(op),
                }
            }
            Op::WriteFull { data } => {
                let is_empty = data.is_empty();
                if is_empty {
                    self.keep(op);
                    self.content = Content::Empty { is_marked: self.is_marked() };
                } else {
                    self.mark();
                    self.push(op.clone(), Some(0), Answered::AsItIs);
                    self.content = Content::Encoded { end: data.len() as u64 };
                }
            }
            Op::Truncate { size } => self.truncate(*size, op)?,
            Op::Zero { offset, length } => self.zero(*offset, *length, op)?,
            Op::Remove => {
                self.keep(op);
                self.content = Content::Empty { is_marked: false };
            }
            Op::Rollback { .. } | Op::CloneFrom { .. } => {
                self.keep(op);
                self.content = Content::Unknown;
            }
            Op::WriteFullFrom { .. } => {
                return Err(self.refused("another object's bytes may be encoded differently").hint(
                    "read the other object and write this one, or clone the snapshot: a clone takes its encoding along",
                ));
            }
            Op::Call(_) => {
                return Err(self.refused("a method would see encoded bytes").hint(
                    "call methods of objects that no rule sends through a re-encoding waypoint",
                ));
            }
            Op::SetAttribute { name, .. } | Op::RemoveAttribute { name }
                if name == MARK_ATTRIBUTE =>
            {
                return Err(mark_is_reserved());
            }
            _ => self.keep(op),
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64, op: &Op) -> Result<()> {
        self.check_known()?;
        match (self.end(), size) {
            (Some(end), size) if size > end => {
                self.mark();
                self.fill(end, size)?;
                self.answer_last();
                self.content = Content::Encoded { end: size };
            }
            (_, size) => {
                self.keep(op);
                self.content = match (&self.content, size) {
                    (_, 0) => Content::Empty { is_marked: self.is_marked() },
                    (Content::Encoded { .. }, end) => Content::Encoded { end },
                    (_, end) => Content::Plain { end },
                };
            }
        }
        Ok(())
    }

    fn zero(&mut self, offset: u64, length: u64, op: &Op) -> Result<()> {
        self.check_known()?;
        let Content::Encoded { end } = self.content else {
            self.keep(op);
            return Ok(());
        };
        match offset.saturating_add(length).min(end) {
            until if until > offset => {
                self.fill(offset, until)?;
                self.answer_last();
            }
            _ => self.keep(op),
        }
        Ok(())
    }

    /// Writes the bytes of `op` at an offset.
    fn write(&mut self, offset: u64, data: Bytes, op: &Op, answered: Answered) -> Result<()> {
        let Some(end) = self.end() else {
            self.keep(op);
            return Ok(());
        };
        let until = offset.saturating_add(data.len() as u64);
        if data.is_empty() && offset <= end {
            self.keep(op);
            return Ok(());
        }
        self.mark();
        if offset > end {
            self.fill(end, offset)?;
        }
        match data.is_empty() {
            true => self.answer_last(),
            false => self.push(Op::Write { offset, data }, Some(offset), answered),
        }
        self.content = Content::Encoded { end: end.max(until) };
        Ok(())
    }

    /// Writes encoded zeros.
    fn fill(&mut self, from: u64, until: u64) -> Result<()> {
        self.filled = self.filled.saturating_add(until.saturating_sub(from));
        if self.filled > MAX_FILLED_BYTES {
            return Err(self
                .refused(&format!(
                    "the waypoint would have to write {} encoded zeros, more than the limit of {MAX_FILLED_BYTES} bytes",
                    self.filled
                ))
                .hint("write the bytes of the object in order, or zero a shorter range at a time"));
        }
        let length = usize::try_from(until.saturating_sub(from)).unwrap_or_default();
        let data = Bytes::from(vec![0; length]);
        self.push(Op::Write { offset: from, data }, Some(from), Answered::Dropped);
        Ok(())
    }

    /// Gives the client the result of the op that was added last.
    fn answer_last(&mut self) {
        if let Some(last) = self.coded.last_mut() {
            last.answered = Answered::AsItIs;
        }
    }

    /// Gives the object the mark, unless it has it.
    fn mark(&mut self) {
        if !self.is_marked() {
            let name = MARK_ATTRIBUTE.to_owned();
            let op = Op::SetAttribute { name, value: self.own.encode() };
            self.push(op, None, Answered::Dropped);
        }
    }

    fn is_marked(&self) -> bool {
        matches!(self.content, Content::Encoded { .. } | Content::Empty { is_marked: true })
    }

    /// Where the bytes end, if the waypoint encodes new ones; `None` if the object keeps plain
    /// bytes.
    fn end(&self) -> Option<u64> {
        match self.content {
            Content::Empty { .. } => Some(0),
            Content::Encoded { end } => Some(end),
            _ => None,
        }
    }

    fn keep(&mut self, op: &Op) {
        self.push(op.clone(), None, Answered::AsItIs);
    }

    fn push(&mut self, op: Op, encode_at: Option<u64>, answered: Answered) {
        self.coded.push(CodedOp { op, encode_at, answered });
    }

    /// Refuses bytes that only other code can decode.
    fn check_known(&self) -> Result<()> {
        match &self.content {
            Content::Foreign(mark) => Err(self
                .refused(&format!("{mark} has encoded its bytes"))
                .hint(format!(
                    "activate that version, or have a rule name waypoint {}; replacing the whole object works too",
                    mark.program
                ))),
            Content::Unknown => Err(self
                .refused("the request replaces the bytes and uses them at once")
                .hint("send the ops in two requests")),
            _ => Ok(()),
        }
    }

    fn refused(&self, why: &str) -> Error {
        Error::unsupported(format!("a rule sends this object through {}, and {why}", self.own))
    }
}

/// The error for a request that changes a mark.
pub(crate) fn mark_is_reserved() -> Error {
    Error::denied(format!("only waypoints may change the attribute {MARK_ATTRIBUTE}"))
        .hint("choose another name for the attribute")
}
