//! An entry of a log: its key and value in the object's map, and its form in the answer of a batch
//! read.

use bytes::{BufMut, Bytes, BytesMut};
use nacre_object::limits::MAX_MAP_VALUE_BYTES;

use crate::codec::{Decoded, Decoder, POSITION_END, Undecodable, put_sized_bytes};

/// The prefix of every entry's key. Later formats may use the rest of the map.
pub(super) const KEY_PREFIX: &[u8] = b"e";
const KEY_BYTES: usize = KEY_PREFIX.len() + 8;
const KIND_BYTES: usize = 1;

/// The most data of one entry. The data and the kind of the entry are one value of a map.
pub(crate) const MAX_ENTRY_BYTES: usize = MAX_MAP_VALUE_BYTES - KIND_BYTES;

/// The key of a position.
pub(super) fn key(position: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..KEY_PREFIX.len()].copy_from_slice(KEY_PREFIX);
    key[KEY_PREFIX.len()..].copy_from_slice(&position.to_be_bytes());
    key
}

/// The position of a key; `None` if it is not the key of an entry.
pub(super) fn position_of(key: &[u8]) -> Option<u64> {
    let number = key.strip_prefix(KEY_PREFIX)?.try_into().ok()?;
    Some(u64::from_be_bytes(number)).filter(|position| *position < POSITION_END)
}

/// What a position of an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// Nothing yet.
    Unwritten,
    /// Data.
    Data(Bytes),
    /// Nothing, for ever.
    Filled,
    /// Something once, perhaps.
    Trimmed,
    /// Something that makes no sense.
    Damaged,
}

impl EntryState {
    /// The state a stored value stands for.
    pub fn of_value(value: &Bytes) -> Self {
        match (value.first(), value.len()) {
            (Some(b'D'), _) => Self::Data(value.slice(KIND_BYTES..)),
            (Some(b'F'), KIND_BYTES) => Self::Filled,
            (Some(b'T'), KIND_BYTES) => Self::Trimmed,
            _ => Self::Damaged,
        }
    }

    /// The value that stores data.
    pub fn value_of_data(data: &[u8]) -> Bytes {
        let mut value = BytesMut::with_capacity(KIND_BYTES + data.len());
        value.put_u8(b'D');
        value.put_slice(data);
        value.freeze()
    }

    /// The value that stores a filled position.
    pub const FILLED_VALUE: Bytes = Bytes::from_static(b"F");
    /// The value that stores a trimmed position.
    pub const TRIMMED_VALUE: Bytes = Bytes::from_static(b"T");

    /// Encodes the entry as `read_batch` answers it: a letter; for data also its length (u32) and
    /// the data.
    pub fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Unwritten => output.put_u8(b'U'),
            Self::Data(data) => {
                output.put_u8(b'D');
                put_sized_bytes(output, data);
            }
            Self::Filled => output.put_u8(b'F'),
            Self::Trimmed => output.put_u8(b'T'),
            Self::Damaged => output.put_u8(b'X'),
        }
    }

    pub fn decode(decoder: &mut Decoder) -> Decoded<Self> {
        Ok(match decoder.u8()? {
            b'U' => Self::Unwritten,
            b'D' => Self::Data(decoder.sized_bytes()?),
            b'F' => Self::Filled,
            b'T' => Self::Trimmed,
            b'X' => Self::Damaged,
            _ => return Err(Undecodable),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_position_and_a_foreign_key_has_no_position() {
        let positions = [0, 1, 255, 256, 1 << 40, POSITION_END - 1];
        assert!(positions.map(key).is_sorted());
        for position in positions {
            assert_eq!(position_of(&key(position)), Some(position));
        }
        assert_eq!(position_of(b"e"), None);
        assert_eq!(position_of(b"x1234567"), None);
        assert_eq!(position_of(&[b"e", &[0xff; 8][..]].concat()), None);
    }

    #[test]
    fn a_filled_or_trimmed_entry_with_further_bytes_is_damaged() {
        for value in [&b""[..], b"FF", b"T ", b"d", b"\0"] {
            let value = Bytes::copy_from_slice(value);
            assert_eq!(EntryState::of_value(&value), EntryState::Damaged, "{value:?}");
        }
        let stored = EntryState::value_of_data(b"");
        assert_eq!(EntryState::of_value(&stored), EntryState::Data(Bytes::new()));
    }
}
