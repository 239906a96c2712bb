//! Encodes little-endian fields, and decodes them strictly: it refuses an input that is too short,
//! too long or out of range.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::limits::MAX_EXACT_INTEGER;

/// The input does not have the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecodable;

pub(crate) type Decoded<T> = Result<T, Undecodable>;

/// One past the greatest position: 2^53 − 1. Scripts can therefore compute with every position
/// exactly.
pub(crate) const POSITION_END: u64 = MAX_EXACT_INTEGER - 1;

/// Decodes fields from the front of an input. Byte strings share the memory of the input if it is
/// [`Bytes`].
#[derive(Debug)]
pub(crate) struct Decoder<Input = Bytes>(Input);

impl<Input: Buf> Decoder<Input> {
    pub fn new(input: Input) -> Self {
        Self(input)
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        self.0.try_get_u8().map_err(|_| Undecodable)
    }

    pub fn u16(&mut self) -> Decoded<u16> {
        self.0.try_get_u16_le().map_err(|_| Undecodable)
    }

    pub fn u32(&mut self) -> Decoded<u32> {
        self.0.try_get_u32_le().map_err(|_| Undecodable)
    }

    pub fn i32(&mut self) -> Decoded<i32> {
        self.0.try_get_i32_le().map_err(|_| Undecodable)
    }

    /// A number that scripts can hold exactly.
    pub fn u64(&mut self) -> Decoded<u64> {
        let number = self.0.try_get_u64_le().map_err(|_| Undecodable)?;
        if number < MAX_EXACT_INTEGER { Ok(number) } else { Err(Undecodable) }
    }

    pub fn position(&mut self) -> Decoded<u64> {
        let position = self.u64()?;
        if position < POSITION_END { Ok(position) } else { Err(Undecodable) }
    }

    /// Decodes a string with its length (u16) before it.
    pub fn text(&mut self) -> Decoded<String> {
        let mut text = vec![0; usize::from(self.u16()?)];
        self.0.try_copy_to_slice(&mut text).map_err(|_| Undecodable)?;
        String::from_utf8(text).map_err(|_| Undecodable)
    }

    /// Whether anything is left.
    pub fn has_more(&self) -> bool {
        self.0.has_remaining()
    }

    /// Nothing may be left.
    pub fn finish(self) -> Decoded<()> {
        if self.0.has_remaining() { Err(Undecodable) } else { Ok(()) }
    }
}

impl Decoder {
    pub fn bytes(&mut self, length: usize) -> Decoded<Bytes> {
        if length > self.0.len() {
            return Err(Undecodable);
        }
        Ok(self.0.split_to(length))
    }

    /// A byte string after its length in 32 bits.
    pub fn sized_bytes(&mut self) -> Decoded<Bytes> {
        let length = self.u32()? as usize;
        self.bytes(length)
    }

    /// The rest of the input.
    pub fn rest(self) -> Bytes {
        self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a byte string after its length in 32 bits.
pub(crate) fn put_sized_bytes(output: &mut BytesMut, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("what is encoded is bounded far below 4 GiB");
    output.put_u32_le(length);
    output.put_slice(bytes);
}

/// Appends a string with its length (u16) before it.
pub(crate) fn put_text(output: &mut BytesMut, text: &str) {
    let length = u16::try_from(text.len()).expect("names are bounded far below 64 KiB");
    output.put_u16_le(length);
    output.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_short_long_or_out_of_range_is_refused() {
        let mut decoder = Decoder::new(Bytes::from_static(&[1, 2, 3]));
        assert_eq!(decoder.u32(), Err(Undecodable));
        let mut decoder = Decoder::new(Bytes::from_static(&[1, 2, 3]));
        assert_eq!(decoder.u8(), Ok(1));
        assert_eq!(decoder.bytes(3), Err(Undecodable));
        assert_eq!(decoder.finish(), Err(Undecodable));
        for (number, is_position) in
            [(0, true), (POSITION_END - 1, true), (POSITION_END, false), (u64::MAX, false)]
        {
            let encoded = Bytes::copy_from_slice(&u64::to_le_bytes(number));
            assert_eq!(Decoder::new(encoded).position().is_ok(), is_position, "{number}");
        }
    }
}
