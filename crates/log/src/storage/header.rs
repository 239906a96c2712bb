//! The header of a stripe's object: its epoch and trim bounds. They are one record in the header of
//! the object's map.

use bytes::{BufMut, Bytes, BytesMut};
use nacre_object::{Error, Result};

use super::status::EIO;
use crate::codec::{Decoded, Decoder, Undecodable};

const MAGIC: &[u8; 4] = b"NLOG";
const FORMAT: u32 = 1;
/// The greatest prime below 2^32.
const CHECKSUM_PRIME: u64 = 4_294_967_291;

/// What concerns every entry of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ObjectHeader {
    /// Operations with an older epoch are refused.
    pub epoch: u64,
    /// Positions below are trimmed, whatever the map says of them.
    pub trim_end: u64,
    /// All entries below were removed from the map. From here to `trim_end` some may be left.
    pub reclaim_end: u64,
}

impl ObjectHeader {
    /// The header of an object sealed for the first time.
    pub fn sealed_at(epoch: u64) -> Self {
        Self { epoch, trim_end: 0, reclaim_end: 0 }
    }

    pub fn encode(self) -> Bytes {
        let mut encoded = BytesMut::with_capacity(36);
        encoded.put_slice(MAGIC);
        encoded.put_u32_le(FORMAT);
        encoded.put_u64_le(self.epoch);
        encoded.put_u64_le(self.trim_end);
        encoded.put_u64_le(self.reclaim_end);
        encoded.put_u32_le(self.checksum());
        encoded.freeze()
    }

    /// A checksum that a script can compute exactly and quickly with doubles.
    fn checksum(self) -> u32 {
        let numbers = [self.epoch, self.trim_end, self.reclaim_end];
        let sum = numbers.into_iter().fold(u64::from(FORMAT), |sum, number| {
            (sum * 31 + number % CHECKSUM_PRIME) % CHECKSUM_PRIME
        });
        sum as u32
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// -EIO if it is missing, damaged or of another format.
    pub fn decode(encoded: Bytes) -> Result<Self> {
        Self::parse(encoded).map_err(|Undecodable| {
            Error::corrupt("the log header in the header of the object's map is missing or damaged")
                .with_status(EIO)
                .hint("`nacre scrub` says what is damaged")
        })
    }

    fn parse(encoded: Bytes) -> Decoded<Self> {
        let mut decoder = Decoder::new(encoded);
        if decoder.bytes(MAGIC.len())? != MAGIC[..] || decoder.u32()? != FORMAT {
            return Err(Undecodable);
        }
        let header =
            Self { epoch: decoder.u64()?, trim_end: decoder.u64()?, reclaim_end: decoder.u64()? };
        if decoder.u32()? != header.checksum() {
            return Err(Undecodable);
        }
        decoder.finish()?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: ObjectHeader = ObjectHeader { epoch: 7, trim_end: 300, reclaim_end: 44 };

    #[test]
    fn a_header_is_stored_as_documented() {
        let sample =
            "4e4c4f47 01000000 0700000000000000 2c01000000000000 2c00000000000000 26b30000";
        let hex: String = HEADER.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, sample.replace(' ', ""));
        assert_eq!(ObjectHeader::decode(HEADER.encode()).unwrap(), HEADER);
    }

    #[test]
    fn a_header_with_any_bit_flipped_or_cut_is_refused() {
        let good = HEADER.encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(ObjectHeader::decode(bad.into()).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(ObjectHeader::decode(good.slice(..length)).is_err(), "{length} bytes");
        }
    }
}
