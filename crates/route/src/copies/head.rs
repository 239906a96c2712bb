//! `CopyHead`: what a target knows about a copy that it stores, and which pieces it accepts.

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

/// A piece of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyWrite {
    /// The object of which it is a copy.
    pub home: ObjectId,
    /// The copy.
    pub tag: CopyTag,
    /// The size of the whole copy.
    pub size: u64,
    /// The first byte of the piece.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
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
    /// The target stores the bytes up to this one. The copy is complete when this is its size.
    pub filled: u64,
}

/// What a target does with a piece that it accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStep {
    /// It removes the copy that it stores, if it stores one, and begins a new one.
    Begin(CopyHead),
    /// It continues the copy that it stores.
    Continue(CopyHead),
}

impl CopyHead {
    /// Decides about a piece that reaches a target which stores the copy `before`, if any.
    ///
    /// # Errors
    /// `Stale` if the target stores a later copy; `Conflict` if an earlier piece is missing;
    /// `Invalid` if the piece is longer than the copy.
    pub fn after(before: Option<&Self>, write: &CopyWrite) -> Result<CopyStep> {
        let end = write.offset.checked_add(write.data.len() as u64);
        let end = end.filter(|end| *end <= write.size).ok_or_else(|| {
            Error::invalid("a piece of a copy reaches past the end of the copy").on(&write.home)
        })?;
        let gap = || Error::conflict("an earlier piece of the copy is missing").on(&write.home);
        match before {
            Some(before) if before.tag > write.tag => {
                Err(Error::stale("the target stores a later copy").on(&write.home))
            }
            Some(before) if before.tag == write.tag => match write.offset <= before.filled {
                true => Ok(CopyStep::Continue(Self {
                    filled: before.filled.max(end),
                    ..before.clone()
                })),
                false => Err(gap()),
            },
            _ if write.offset > 0 => Err(gap()),
            _ => Ok(CopyStep::Begin(Self {
                home: write.home.clone(),
                tag: write.tag,
                size: write.size,
                filled: end,
            })),
        }
    }

    /// Whether a read of the copy `tag` may be served from here.
    pub fn serves(&self, tag: CopyTag) -> bool {
        self.tag == tag && self.filled == self.size
    }

    /// Encodes it for the object that stores the copy: the tag's term and number, the size and the
    /// filled bytes, 8 bytes each in big-endian order; then the home.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        put_tag(&mut out, self.tag);
        out.put_u64(self.size);
        out.put_u64(self.filled);
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
            let (size, filled) = (head.try_get_u64().ok()?, head.try_get_u64().ok()?);
            let home = std::str::from_utf8(&head).ok()?.parse().ok()?;
            Some(Self { home, tag, size, filled })
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
