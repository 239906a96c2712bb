//! How the values of table entries are encoded, format 1. A large value is divided into *payloads*,
//! which stay in the journal.
//!
//! A value is either inline (`0`, then its bytes) or a list of pieces of payloads in the journal
//! (`1`, then 24 bytes a piece). A piece is the segment, offset, length and crc32c of its payload,
//! then how many bytes to skip and to take. The highest bit of the number to skip says [where the
//! owner of the payload is recorded](NamedIn).
//!
//! Both kinds end in a crc32c over the key and everything before the crc32c. So an entry that is
//! damaged, or stored under another key, gives [`nacre_object::ErrorKind::Corrupt`], never wrong
//! data.
//!
//! A payload is written once, in the journal record of the transaction that brought it. Table
//! entries, snapshots and clones share it.

use bytes::Bytes;
use lsm_tree::Slice;
use nacre_object::{Error, Result};

use crate::entry::codec::{Put, Take};
use crate::errors;

/// Values of at least this many bytes stay in the journal as payloads; shorter ones are copied into
/// the tables. Measured (`examples/layout.rs`): for a shorter value, reading it from the journal
/// costs more than writing it a second time.
pub(crate) const PAYLOAD_MIN_BYTES: usize = 1024;
/// The most bytes of one payload; longer values are divided. Even a small read must read and verify
/// the whole payload, so the bound is low.
pub(crate) const PAYLOAD_MAX_BYTES: usize = 64 * 1024;

const _: () = assert!(PAYLOAD_MIN_BYTES <= PAYLOAD_MAX_BYTES);

const INLINE: u8 = 0;
const PIECES: u8 = 1;
const CRC_BYTES: usize = 4;
/// A bit in the number of bytes to skip: the payload's record names the owner.
const NAMED_IN_RECORD: u32 = 1 << 31;

const _: () = assert!((PAYLOAD_MAX_BYTES as u32) < NAMED_IN_RECORD);

/// The address, length and checksum of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PayloadAddress {
    pub segment: u32,
    /// First byte, from the start of the segment.
    pub offset: u32,
    /// Bytes of the whole payload.
    pub length: u32,
    pub crc: u32,
}

impl PayloadAddress {
    pub const BYTES: usize = 16;

    pub fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.segment, self.offset, self.length, self.crc] {
            out.put_u32(number);
        }
    }

    pub fn decode(from: &mut Take<'_>) -> Result<Self> {
        Ok(Self {
            segment: from.u32()?,
            offset: from.u32()?,
            length: from.u32()?,
            crc: from.u32()?,
        })
    }
}

/// Where the bytes of a piece come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Written by the running transaction; in no record yet.
    Fresh(Bytes),
    /// In a record under construction, as its n-th payload.
    InBuilder(u32, Bytes),
    /// In a record that is possibly not synced yet, so it is read from memory.
    Unsynced(PayloadAddress, Bytes),
    /// On disk.
    Stored(PayloadAddress),
}

impl Source {
    /// The address in the journal, if the bytes have one yet.
    pub fn address(&self) -> Option<&PayloadAddress> {
        match self {
            Self::Unsynced(address, _) | Self::Stored(address) => Some(address),
            Self::Fresh(_) | Self::InBuilder(..) => None,
        }
    }
}

/// Where the owner of a payload is recorded. An *owner* is a table entry that refers to the
/// payload. Compaction moves payloads, so it must find all owners of each.
///
/// **Invariant:** for every piece of a stored value, the owner is recorded in exactly one of these
/// two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NamedIn {
    /// In the journal record that contains the payload. Most owners are recorded there, because it
    /// costs nothing extra.
    Record,
    /// In a *reference*, a table entry that names the owner. An owner that came after the journal
    /// record was written, such as a clone, is recorded here. So is an owner that now refers to
    /// only part of the payload.
    Reference,
}

/// Part of a payload.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub source: Source,
    pub skip: u32,
    pub take: u32,
    /// Valid once the piece is in a record.
    pub named_in: NamedIn,
}

/// What a table entry holds.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Inline(Bytes),
    /// Pieces in order; together they are the value.
    Pieces(Vec<Piece>),
}

impl Value {
    /// A value of these bytes, as payloads if there are enough of them.
    pub fn of(data: Bytes) -> Self {
        if data.len() < PAYLOAD_MIN_BYTES {
            return Self::Inline(data);
        }
        let starts = (0..data.len()).step_by(PAYLOAD_MAX_BYTES);
        let chunk = |start| data.slice(start..data.len().min(start + PAYLOAD_MAX_BYTES));
        Self::Pieces(starts.map(|start| Piece::fresh(chunk(start))).collect())
    }

    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(data) => data.len() as u64,
            Self::Pieces(pieces) => pieces.iter().map(|piece| u64::from(piece.take)).sum(),
        }
    }

    /// Heap memory of the value, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Inline(data) => data.len(),
            Self::Pieces(pieces) => size_of_val(pieces.as_slice()),
        }
    }

    pub fn pieces(&self) -> &[Piece] {
        match self {
            Self::Inline(_) => &[],
            Self::Pieces(pieces) => pieces,
        }
    }

    /// Returns the bytes `from..to` of the value. The value must be inline or a single piece, as
    /// every extent's value is.
    pub fn trimmed(&self, from: u64, to: u64) -> Self {
        match self {
            Self::Inline(data) => Self::Inline(data.slice(from as usize..to as usize)),
            Self::Pieces(pieces) => {
                debug_assert_eq!(pieces.len(), 1, "an extent is one piece");
                let trim = |piece: &Piece| Piece {
                    source: piece.source.clone(),
                    skip: piece.skip + from as u32,
                    take: (to - from) as u32,
                    named_in: NamedIn::Reference,
                };
                Self::Pieces(pieces.iter().map(trim).collect())
            }
        }
    }

    /// Encodes the value for the tables. Callers reuse `scratch`, a buffer.
    ///
    /// # Panics
    /// If a piece has no address in the journal yet. Append the value's record to the journal
    /// first.
    pub fn encode(&self, key: &[u8], scratch: &mut Vec<u8>) -> Slice {
        scratch.clear();
        match self {
            Self::Inline(data) => {
                scratch.put_u8(INLINE);
                scratch.put_bytes(data);
            }
            Self::Pieces(pieces) => {
                scratch.put_u8(PIECES);
                for piece in pieces {
                    let address = piece.source.address().expect("applied values have been placed");
                    let mark = match piece.named_in {
                        NamedIn::Record => NAMED_IN_RECORD,
                        NamedIn::Reference => 0,
                    };
                    address.encode(scratch);
                    scratch.put_u32(piece.skip | mark);
                    scratch.put_u32(piece.take);
                }
            }
        }
        scratch.put_u32(crc_of(key, scratch));
        Slice::from(scratch.as_slice())
    }

    /// # Errors
    /// `Corrupt` if the bytes are not a value that was stored under this key.
    pub fn decode(key: &[u8], stored: &[u8]) -> Result<Self> {
        let damaged = || {
            let text = format!("a table entry fails its checksum: {key:02x?}");
            Error::corrupt(text).hint(errors::FIND_DAMAGE)
        };
        let split = stored.len().checked_sub(CRC_BYTES).ok_or_else(damaged)?;
        let (content, crc) = stored.split_at(split);
        if crc_of(key, content).to_le_bytes() != crc {
            return Err(damaged());
        }
        match content.split_first() {
            Some((&INLINE, body)) => Ok(Self::Inline(Bytes::copy_from_slice(body))),
            Some((&PIECES, body)) => {
                let mut rest = Take(body);
                let mut pieces = Vec::with_capacity(body.len() / (PayloadAddress::BYTES + 8));
                while !rest.is_empty() {
                    pieces.push(Piece::decode(&mut rest)?);
                }
                Ok(Self::Pieces(pieces))
            }
            _ => Err(damaged()),
        }
    }

    /// The bytes of a value that is never a payload, such as a head or a count.
    ///
    /// # Errors
    /// `Corrupt` if the value is a payload.
    pub fn into_inline(self) -> Result<Bytes> {
        match self {
            Self::Inline(data) => Ok(data),
            Self::Pieces(_) => Err(Error::corrupt(
                "a table entry refers to a payload where only inline bytes are allowed",
            )
            .hint(errors::FIND_DAMAGE)),
        }
    }
}

impl Piece {
    pub fn fresh(data: Bytes) -> Self {
        let take = u32::try_from(data.len()).expect("payloads are bounded");
        Self { source: Source::Fresh(data), skip: 0, take, named_in: NamedIn::Record }
    }

    fn decode(from: &mut Take<'_>) -> Result<Self> {
        let address = PayloadAddress::decode(from)?;
        let (skip, take) = (from.u32()?, from.u32()?);
        let named_in =
            if skip & NAMED_IN_RECORD == 0 { NamedIn::Reference } else { NamedIn::Record };
        Self::stored(address, skip & !NAMED_IN_RECORD, take, named_in)
    }

    /// A piece of a payload on disk.
    ///
    /// # Errors
    /// `Corrupt` if the payload is not that long.
    pub fn stored(
        address: PayloadAddress,
        skip: u32,
        take: u32,
        named_in: NamedIn,
    ) -> Result<Self> {
        if u64::from(skip) + u64::from(take) > u64::from(address.length) {
            return Err(Error::corrupt("a table entry refers to more bytes than its payload has")
                .hint(errors::FIND_DAMAGE));
        }
        Ok(Self { source: Source::Stored(address), skip, take, named_in })
    }
}

fn crc_of(key: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_value_reads_back_under_its_own_key_only() {
        let address = PayloadAddress { segment: 1, offset: 2, length: 300, crc: 4 };
        let piece = |named_in| Piece::stored(address, 100, 200, named_in).unwrap();
        let pieces = [NamedIn::Record, NamedIn::Reference].map(piece).to_vec();
        for value in [Value::Inline(Bytes::from_static(b"abc")), Value::Pieces(pieces)] {
            let stored = value.encode(b"key", &mut Vec::new());
            let back = Value::decode(b"key", &stored).unwrap();
            assert_eq!(format!("{back:?}"), format!("{value:?}"));
            assert!(Value::decode(b"other", &stored).is_err());
        }
    }

    #[test]
    fn any_flipped_bit_of_a_stored_value_is_found() {
        let stored = Value::Inline(Bytes::from_static(b"some bytes")).encode(b"k", &mut Vec::new());
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Value::decode(b"k", &flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn large_values_become_payloads_of_bounded_size() {
        let data = Bytes::from(vec![1; PAYLOAD_MAX_BYTES * 2 + 1]);
        let value = Value::of(data.clone());
        let takes: Vec<_> = value.pieces().iter().map(|piece| piece.take as usize).collect();
        assert_eq!(takes, [PAYLOAD_MAX_BYTES, PAYLOAD_MAX_BYTES, 1]);
        assert_eq!(value.len(), data.len() as u64);
        assert!(Value::of(data.slice(..PAYLOAD_MIN_BYTES - 1)).pieces().is_empty());
    }
}
