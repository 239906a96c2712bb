//! The format of a log entry: a record, the id by which its writer recognises it, and a checksum.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | format, 1 |
//! | 16 | the record's id: its writer (u64), and a number that the writer uses once (u64) |
//! | 4 | CRC-32C of the id and the data |
//! | rest | the data |
//!
//! Numbers are little-endian. The appending client computes the checksum, and the reading client
//! checks it.

use bytes::{BufMut, Bytes, BytesMut};
use nacre_object::{Error, Result};

use crate::codec::{Decoded, Decoder, Undecodable};

const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 21;

/// Identifies a record among all others, at whatever position a client finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RecordId {
    pub writer: u64,
    pub number: u64,
}

impl RecordId {
    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.writer.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// The entry that holds a record.
pub(crate) fn encode(id: RecordId, data: &[u8]) -> Bytes {
    let id = id.to_bytes();
    let mut entry = BytesMut::with_capacity(HEADER_BYTES + data.len());
    entry.put_u8(FORMAT);
    entry.put_slice(&id);
    entry.put_u32_le(checksum(&id, data));
    entry.put_slice(data);
    entry.freeze()
}

/// Whether an entry is the record of this id.
pub(crate) fn is(entry: &[u8], id: RecordId) -> bool {
    entry.get(1..17) == Some(&id.to_bytes()[..])
}

/// Decodes an entry and returns the data of its record.
///
/// # Errors
/// `Corrupt` if the entry contains no record, or its checksum does not match.
pub(crate) fn decode(entry: Bytes, position: u64) -> Result<Bytes> {
    parse(entry).map_err(|Undecodable| {
        Error::corrupt(format!(
            "the entry at position {position} is damaged: it is no record, or its checksum is wrong"
        ))
        .hint("`nacre scrub` says what is damaged; trim the position to skip it")
    })
}

fn parse(entry: Bytes) -> Decoded<Bytes> {
    let mut decoder = Decoder::new(entry);
    if decoder.u8()? != FORMAT {
        return Err(Undecodable);
    }
    let id = decoder.bytes(16)?;
    let expected = decoder.u32()?;
    let data = decoder.rest();
    if checksum(&id, &data) == expected { Ok(data) } else { Err(Undecodable) }
}

fn checksum(id: &[u8], data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(id), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RecordId = RecordId { writer: 0x0102_0304_0506_0708, number: 9 };

    #[test]
    fn a_record_is_stored_as_documented() {
        let hex: String = encode(ID, b"hi").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "01080706050403020109000000000000005e0bf38b6869");
        assert_eq!(decode(encode(ID, b"hi"), 0).unwrap(), "hi");
        assert!(is(&encode(ID, b""), ID));
        assert!(!is(&encode(ID, b""), RecordId { number: 8, ..ID }) && !is(b"\x01", ID));
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_corrupt() {
        let good = encode(ID, b"data");
        for bit in 0..good.len() * 8 {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(bad.into(), 3).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(decode(good.slice(..length), 3).is_err(), "{length} bytes");
        }
    }
}
