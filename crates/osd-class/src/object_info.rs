//! Decodes the OSD's record of an object, to learn the object's version. The class API itself gives
//! access to everything else in the record.
//!
//! The record is stored as the object's attribute `_`, which is the xattr with the empty name: user
//! xattrs are stored with `_` before their name. The encoding is Ceph's `object_info_t` in struct
//! version 17, little-endian. A *framed* struct begins with its version (u8), the oldest version
//! that may read it (u8) and its length (u32).
//!
//! | part | bytes |
//! |---|---|
//! | frame of the whole | 6 |
//! | object, locator | framed |
//! | unused, version, prior version | 4 + 12 + 12 |
//! | last request | framed |
//! | size, time of change (seconds, nanoseconds) | 8 + 4 + 4 |
//! | unused | framed |
//! | truncation, lost | 8 + 8 + 1 |
//! | watchers in an old form: count, then each | 4, then 9 + framed |
//! | user version | 8 |

use bytes::Buf;

/// The struct version that Ceph 16 writes.
const STRUCT_VERSION: u8 = 17;
/// The oldest reader that Ceph 16 admits.
const OLDEST_READER: u8 = 8;
/// The most watchers in an undamaged record: far more than an OSD allows.
const MAX_WATCHERS: u32 = 65_536;

/// The parts of the record that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The version that clients see.
    pub user_version: u64,
    /// Bytes of the data. The class API also reports the size, so a decoding error is noticed.
    pub size: u64,
}

impl ObjectInfo {
    /// Decodes a record; `None` if its form is unknown.
    pub fn decode(mut encoded: &[u8]) -> Option<Self> {
        let input = &mut encoded;
        let (version, oldest_reader) = (input.try_get_u8().ok()?, input.try_get_u8().ok()?);
        if (version, oldest_reader) != (STRUCT_VERSION, OLDEST_READER) {
            return None;
        }
        skip(input, 4)?;
        skip_framed(input)?;
        skip_framed(input)?;
        skip(input, 4 + 12 + 12)?;
        skip_framed(input)?;
        let size = input.try_get_u64_le().ok()?;
        skip(input, 4 + 4)?;
        skip_framed(input)?;
        skip(input, 8 + 8 + 1)?;
        let watchers = input.try_get_u32_le().ok()?;
        if watchers > MAX_WATCHERS {
            return None;
        }
        for _ in 0..watchers {
            skip(input, 9)?;
            skip_framed(input)?;
        }
        let user_version = input.try_get_u64_le().ok()?;
        Some(Self { user_version, size })
    }
}

fn skip(input: &mut &[u8], bytes: usize) -> Option<()> {
    *input = input.get(bytes..)?;
    Some(())
}

fn skip_framed(input: &mut &[u8]) -> Option<()> {
    skip(input, 2)?;
    let length = input.try_get_u32_le().ok()?;
    skip(input, length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record that an OSD of Ceph 16.2.15 kept about an object of 18 bytes after six writes.
    const SAMPLE: &str = include_str!("samples/object_info_16.hex");
    /// The record of the same object after a client began to watch it, and after one more write.
    const WATCHED: &str = include_str!("samples/object_info_16_watched.hex");

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    #[test]
    fn an_object_info_written_by_an_osd_can_be_read() {
        let plain = ObjectInfo { user_version: 6, size: 18 };
        assert_eq!(ObjectInfo::decode(&bytes(SAMPLE)), Some(plain));
        let watched = ObjectInfo { user_version: 8, size: 18 };
        assert_eq!(ObjectInfo::decode(&bytes(WATCHED)), Some(watched));
    }

    #[test]
    fn a_truncated_or_malformed_object_info_is_refused() {
        let sample = bytes(SAMPLE);
        for end in 0..209 {
            assert_eq!(ObjectInfo::decode(&sample[..end]), None, "{end} bytes");
        }
        for at in [0, 1] {
            let mut other = sample.clone();
            other[at] += 1;
            assert_eq!(ObjectInfo::decode(&other), None);
        }
    }
}
