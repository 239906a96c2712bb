//! A segment: one preallocated file of the journal. Format 1, little-endian.
//!
//! ```text
//! 0     "NACRESEG", format u32, segment u32, crc32c u32 of these
//! 512   groups, each at a multiple of 512
//! ```
//!
//! The file's length is the segment's capacity. What lies behind the last group is zeros, or groups
//! of the segment this file was before: those carry another segment's number and do not count.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::codec::{Put, Take};
use crate::disk::{Disk, DiskFile};

const MAGIC: &[u8; 8] = b"NACRESEG";
const FORMAT: u32 = 1;
/// Groups start at multiples of this, the unit disks write whole: a write that tears cannot hurt
/// what was synced before it. Also the size of the header. (Multiples of 4096 were tried: no faster,
/// and a lone small commit took eight times the room.)
pub(crate) const BLOCK_BYTES: u32 = 512;

const SUFFIX: &str = ".segment";
const SPARE_SUFFIX: &str = ".spare";

/// A segment open for writing.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub id: u32,
    pub file: Arc<dyn DiskFile>,
    /// Length of the file in bytes.
    pub capacity: u32,
}

/// The name of a segment's file.
pub(crate) fn file_name(id: u32) -> String {
    format!("{id:010}{SUFFIX}")
}

/// The name of a file that was a segment and waits to be another.
pub(crate) fn spare_name(id: u32) -> String {
    format!("{id:010}{SPARE_SUFFIX}")
}

/// The segment a file holds, by its name.
pub(crate) fn id_in_name(name: &str) -> Option<u32> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// The segment a spare file once held, by its name.
pub(crate) fn id_in_spare_name(name: &str) -> Option<u32> {
    name.strip_suffix(SPARE_SUFFIX)?.parse().ok()
}

pub(crate) fn round_up_to_block(bytes: u64) -> u64 {
    bytes.next_multiple_of(u64::from(BLOCK_BYTES))
}

pub(crate) fn header(id: u32) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.put_u32(FORMAT);
    header.put_u32(id);
    header.put_u32(crc32c::crc32c(&header));
    header
}

impl Segment {
    fn write_header(&self) -> io::Result<()> {
        self.file.write_at(0, &header(self.id))
    }

    /// Has header, length and name survive a crash, whatever became of earlier syncs.
    pub fn make_durable(&self, disk: &Arc<dyn Disk>, folder: &Path) -> io::Result<()> {
        self.write_header()?;
        self.file.sync()?;
        disk.sync_folder(folder)
    }

    /// Whether the header is that of this segment, in a format known here.
    pub fn has_header(&self) -> io::Result<bool> {
        let expected = header(self.id);
        let mut found = vec![0; expected.len()];
        match self.file.read_at(0, &mut found) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            result => result.map(|()| found == expected),
        }
    }
}

/// The header of a group: the records that one sync made durable. 32 bytes.
///
/// `"NGRP"`, crc32c u32 of the rest, segment u32, length u32 with the header, number u64, records
/// u32, 0 u32. Groups are numbered from 1 without gaps, over all segments; a group is written only
/// when the one before it is synced. **Invariant:** a group that is there proves all before it
/// were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub segment: u32,
    /// Bytes with the header, without padding.
    pub length: u32,
    pub number: u64,
    pub records: u32,
}

const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"NGRP");

impl GroupHeader {
    pub const BYTES: usize = 32;

    pub fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(Self::BYTES);
        rest.put_u32(self.segment);
        rest.put_u32(self.length);
        rest.put_u64(self.number);
        rest.put_u32(self.records);
        rest.put_u32(0);
        let mut header = Vec::with_capacity(Self::BYTES);
        header.put_u32(GROUP_MAGIC);
        header.put_u32(crc32c::crc32c(&rest));
        header.put_bytes(&rest);
        header
    }

    /// `None` if there is no group header of `segment` at the front of `bytes`.
    pub fn decode(bytes: &[u8], segment: u32) -> Option<Self> {
        let mut from = Take(bytes.get(..Self::BYTES)?);
        if from.u32().ok()? != GROUP_MAGIC || from.u32().ok()? != crc32c::crc32c(&bytes[8..32]) {
            return None;
        }
        let header = Self {
            segment: from.u32().ok()?,
            length: from.u32().ok()?,
            number: from.u64().ok()?,
            records: from.u32().ok()?,
        };
        (header.segment == segment).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_header_counts_in_its_own_segment_only() {
        let header = GroupHeader { segment: 4, length: 100, number: 7, records: 2 };
        let bytes = header.encode();
        assert_eq!(bytes.len(), GroupHeader::BYTES);
        assert_eq!(GroupHeader::decode(&bytes, 4), Some(header));
        assert_eq!(GroupHeader::decode(&bytes, 5), None);
        for byte in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 4;
            assert_eq!(GroupHeader::decode(&flipped, 4), None, "byte {byte}");
        }
    }

    #[test]
    fn names_give_back_their_numbers() {
        assert_eq!(id_in_name(&file_name(7)), Some(7));
        assert_eq!(id_in_spare_name(&spare_name(7)), Some(7));
        assert_eq!(id_in_name(&spare_name(7)), None);
        assert_eq!(id_in_name("LOCK"), None);
    }
}
