//! `CopyHead`: what a target knows about a copy that it stores, and which writes it accepts.

use std::cmp::Ordering;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::{Error, ObjectId, Result};

use crate::switch::Term;

/// Identifies a copy. A switch uses each tag once, and a later copy has a greater tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CopyTag {
    /// The term of the switch when it ordered the copy.
    pub term: Term,
    /// Counts the copies that the switch has ordered since its start.
    pub number: u64,
}

/// A state of a copy. A read names the state that it expects, so it never gets the bytes of another
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyState {
    /// The copy.
    pub tag: CopyTag,
    /// How many writes the copy has applied.
    pub applied: u64,
}

/// The bytes of a write to a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyData {
    /// These.
    Bytes(Bytes),
    /// So many zeros, which the message does not contain.
    Zeros(u64),
}

impl CopyData {
    /// How many bytes the write changes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(length) => *length,
        }
    }
}

/// A write to a copy: a piece of a copy in the making, or an update of a complete one. The writes of
/// a copy are numbered, and the target applies them in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyWrite {
    /// The object of which it is a copy.
    pub home: ObjectId,
    /// The copy.
    pub tag: CopyTag,
    /// How many writes the copy applies before this one.
    pub number: u64,
    /// The size of the whole copy after this write. While the copy is in the making, the size that
    /// it will have.
    pub size: u64,
    /// The first byte that changes.
    pub offset: u64,
    /// The bytes.
    pub data: CopyData,
}

/// What a target knows about a copy that it stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyHead {
    /// The object of which it is a copy.
    pub home: ObjectId,
    /// The copy.
    pub tag: CopyTag,
    /// The size of the whole copy.
    pub size: u64,
    /// How many writes the copy has applied.
    pub applied: u64,
}

/// What a target does with a write that it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStep {
    /// It removes the copy that it stores, if it stores one, and begins a new one.
    Begin(CopyHead),
    /// It continues the copy that it stores.
    Continue(CopyHead),
}

impl CopyHead {
    /// Decides about a write that reaches a target which stores the copy `before`, if any.
    ///
    /// # Errors
    /// `Stale` if the target stores a later copy, or the copy has applied the write already;
    /// `Conflict` if an earlier write is missing; `Invalid` if the write reaches past the end of the
    /// copy.
    pub fn after(before: Option<&Self>, write: &CopyWrite) -> Result<CopyStep> {
        let end = write.offset.checked_add(write.data.length());
        if end.is_none_or(|end| end > write.size) {
            return Err(Error::invalid("a write to a copy reaches past the end of the copy")
                .on(&write.home));
        }
        let gap = || Error::conflict("an earlier write to the copy is missing").on(&write.home);
        match before {
            Some(before) if before.tag > write.tag => {
                Err(Error::stale("the target stores a later copy").on(&write.home))
            }
            Some(before) if before.tag == write.tag => match write.number.cmp(&before.applied) {
                Ordering::Less => {
                    Err(Error::stale("the copy has applied this write already").on(&write.home))
                }
                Ordering::Equal => Ok(CopyStep::Continue(Self {
                    size: write.size,
                    applied: before.applied + 1,
                    ..before.clone()
                })),
                Ordering::Greater => Err(gap()),
            },
            _ if write.number > 0 => Err(gap()),
            _ => Ok(CopyStep::Begin(Self {
                home: write.home.clone(),
                tag: write.tag,
                size: write.size,
                applied: 1,
            })),
        }
    }

    /// Whether a read of this state may be served from here.
    pub fn serves(&self, state: CopyState) -> bool {
        self.tag == state.tag && self.applied == state.applied
    }

    /// Encodes it for the object that stores the copy: the tag's term and number, the size and the
    /// number of applied writes, 8 bytes each in big-endian order; then the home.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        put_tag(&mut out, self.tag);
        out.put_u64(self.size);
        out.put_u64(self.applied);
        out.put_slice(self.home.to_string().as_bytes());
        out.freeze()
    }

    /// Decodes what [`CopyHead::encode`] made.
    ///
    /// # Errors
    /// `Corrupt` if it is malformed.
    pub fn decode(mut head: Bytes) -> Result<Self> {
        let decoded = (|| {
            let tag = take_tag(&mut head)?;
            let (size, applied) = (head.try_get_u64().ok()?, head.try_get_u64().ok()?);
            let home = std::str::from_utf8(&head).ok()?.parse().ok()?;
            Some(Self { home, tag, size, applied })
        })();
        decoded.ok_or_else(|| {
            Error::corrupt("the header of a copy is damaged")
                .hint("remove the rule that makes copies, and put it again: nacre route rm")
        })
    }
}

pub(super) fn put_tag(out: &mut BytesMut, tag: CopyTag) {
    out.put_u64(tag.term.0);
    out.put_u64(tag.number);
}

pub(super) fn take_tag(input: &mut Bytes) -> Option<CopyTag> {
    let (term, number) = (input.try_get_u64().ok()?, input.try_get_u64().ok()?);
    Some(CopyTag { term: Term(term), number })
}

impl CopyTag {
    /// No tag is greater.
    pub const LAST: Self = Self { term: Term(u64::MAX), number: u64::MAX };

    /// Encodes it: term and number, 8 bytes each in big-endian order.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(16);
        put_tag(&mut out, self);
        out.freeze()
    }

    /// Decodes what [`CopyTag::encode`] made.
    ///
    /// # Errors
    /// `Invalid` if it is malformed.
    pub fn decode(mut tag: Bytes) -> Result<Self> {
        take_tag(&mut tag)
            .filter(|_| tag.is_empty())
            .ok_or_else(|| Error::invalid("the tag of a copy is malformed"))
    }
}

impl CopyState {
    /// Encodes it: the tag, and the number of applied writes with 8 bytes in big-endian order.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(24);
        put_tag(&mut out, self.tag);
        out.put_u64(self.applied);
        out.freeze()
    }

    /// Decodes what [`CopyState::encode`] made.
    ///
    /// # Errors
    /// `Invalid` if it is malformed.
    pub fn decode(mut state: Bytes) -> Result<Self> {
        let decoded = take_tag(&mut state).and_then(|tag| {
            let applied = state.try_get_u64().ok()?;
            state.is_empty().then_some(Self { tag, applied })
        });
        decoded.ok_or_else(|| Error::invalid("the state of a copy is malformed"))
    }
}
