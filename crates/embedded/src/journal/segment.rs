//! A segment: one preallocated file of the journal. Format 1, little-endian.
//!
//! ```text
//! 0     "NACRESEG", format u32, segment u32, crc32c u32 of these
//! 512   groups, each at a multiple of 512
//!       a mark where the next group will be, unless that group came soon
//! ```
//!
//! The file's length is the segment's capacity. After the last group come zeros, or old bytes if
//! the file was a segment before. Old groups carry another segment's number and are ignored. A
//! client's payload among the old bytes could look like a later group, and recovery would then
//! report damage. Therefore the headers of groups carry the store's secret [salt](Salt).

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::entry::codec::{Put, Take};

const MAGIC: &[u8; 8] = b"NACRESEG";
const FORMAT: u32 = 1;
/// Groups start at multiples of this number of bytes, the unit that disks write atomically. So a
/// torn write cannot damage a group that was synced before it. The segment header is also this
/// long. (With 4096 instead, writes were no faster, and the group of a single small commit took
/// eight times the space.)
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

/// The name of a spare file: it was a segment, and is kept to become another segment.
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

/// A random number that tells a real group header from client data that looks like one. It is drawn
/// when a store is made, and kept only in the store's manifest and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub u64);

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

    /// Makes the header, the length and the name of the segment durable, even if earlier syncs
    /// failed.
    pub fn make_durable(&self, disk: &Arc<dyn Disk>, folder: &Path) -> io::Result<()> {
        self.write_header()?;
        self.file.sync()?;
        disk.sync_folder(folder)
    }

    /// Whether the header is that of this segment.
    pub fn has_header(&self) -> io::Result<bool> {
        let expected = header(self.id);
        let mut found = vec![0; expected.len()];
        match self.file.read_at(0, &mut found) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            result => result.map(|()| found == expected),
        }
    }

    /// Durably erases the header of a torn group. The next group may have the same number in
    /// another segment, and a later recovery would otherwise take the torn group for a written one.
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn wipe_torn_group(&self, offset: u32, salt: Salt) -> io::Result<()> {
        let mut header = vec![0; GroupHeader::BYTES];
        if u64::from(offset) + header.len() as u64 > u64::from(self.capacity) {
            return Ok(());
        }
        self.file.read_at(u64::from(offset), &mut header)?;
        if GroupHeader::decode(&header, self.id, salt).is_none() {
            return Ok(());
        }
        self.file.write_at(u64::from(offset), &vec![0; header.len()])?;
        self.file.sync()
    }
}

/// The header of a group: the records that one sync made durable. 40 bytes.
///
/// `"NGRP"`, crc32c u32 of the rest, segment u32, length u32 with the header, number u64, records
/// u32, 0 u32, salt u64. Groups are numbered from 1 without gaps, over all segments. A group is
/// written only when the one before it is synced.
///
/// **Invariant:** a group on disk proves that all groups before it were synced.
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
    pub const BYTES: usize = 40;

    pub fn encode(&self, salt: Salt) -> Vec<u8> {
        let mut rest = Vec::with_capacity(GroupHeader::BYTES);
        rest.put_u32(self.segment);
        rest.put_u32(self.length);
        rest.put_u64(self.number);
        rest.put_u32(self.records);
        rest.put_u32(0);
        rest.put_u64(salt.0);
        let mut header = Vec::with_capacity(GroupHeader::BYTES);
        header.put_u32(GROUP_MAGIC);
        header.put_u32(crc32c::crc32c(&rest));
        header.put_bytes(&rest);
        header
    }

    /// `None` if there is no group header of `segment` with this salt at the front of `bytes`.
    pub fn decode(bytes: &[u8], segment: u32, salt: Salt) -> Option<Self> {
        let bytes = bytes.get(..GroupHeader::BYTES)?;
        let mut from = Take(bytes);
        if from.u32().ok()? != GROUP_MAGIC || from.u32().ok()? != crc32c::crc32c(&bytes[8..]) {
            return None;
        }
        let header = Self {
            segment: from.u32().ok()?,
            length: from.u32().ok()?,
            number: from.u64().ok()?,
            records: from.u32().ok()?,
        };
        let has_salt = from.u32().ok()? == 0 && from.u64().ok()? == salt.0;
        (header.segment == segment && has_salt).then_some(header)
    }
}

/// A mark records that a group is synced, so that recovery does not take damage in that group for a
/// torn write. 32 bytes.
///
/// `"NMRK"`, crc32c u32 of the rest, u32 number of its segment, 0 u32, the group's number u64, salt
/// u64. The mark lies where the next group will go. The mark itself is not synced: it survives the
/// end of the process, but perhaps not a power cut. Without a mark, recovery takes damage in the
/// last group for a torn write. After a power cut that is probably right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncMark {
    pub segment: u32,
    pub synced: u64,
}

const MARK_MAGIC: u32 = u32::from_le_bytes(*b"NMRK");

impl SyncMark {
    const BYTES: usize = 32;

    pub fn encode(&self, salt: Salt) -> Vec<u8> {
        let mut rest = Vec::with_capacity(Self::BYTES);
        rest.put_u32(self.segment);
        rest.put_u32(0);
        rest.put_u64(self.synced);
        rest.put_u64(salt.0);
        let mut mark = Vec::with_capacity(Self::BYTES);
        mark.put_u32(MARK_MAGIC);
        mark.put_u32(crc32c::crc32c(&rest));
        mark.put_bytes(&rest);
        mark
    }

    /// `None` if there is no mark of `segment` at the front of `bytes`.
    pub fn decode(bytes: &[u8], segment: u32, salt: Salt) -> Option<Self> {
        let bytes = bytes.get(..Self::BYTES)?;
        if bytes[..4] != MARK_MAGIC.to_le_bytes() {
            return None;
        }
        let synced = Take(&bytes[16..]).u64().ok()?;
        let mark = Self { segment, synced };
        (mark.encode(salt) == bytes).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_header_is_valid_only_in_its_own_segment_and_store() {
        let header = GroupHeader { segment: 4, length: 100, number: 7, records: 2 };
        let salt = Salt(77);
        let bytes = header.encode(salt);
        assert_eq!(bytes.len(), GroupHeader::BYTES);
        assert_eq!(GroupHeader::decode(&bytes, 4, salt), Some(header));
        assert_eq!(GroupHeader::decode(&bytes, 5, salt), None);
        assert_eq!(GroupHeader::decode(&bytes, 4, Salt(78)), None);
        for byte in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 4;
            assert_eq!(GroupHeader::decode(&flipped, 4, salt), None, "byte {byte}");
        }
    }

    #[test]
    fn a_mark_is_valid_only_in_its_own_segment_and_store() {
        let (mark, salt) = (SyncMark { segment: 4, synced: 7 }, Salt(77));
        let bytes = mark.encode(salt);
        assert_eq!(bytes.len(), SyncMark::BYTES);
        assert_eq!(SyncMark::decode(&bytes, 4, salt), Some(mark));
        assert_eq!(SyncMark::decode(&bytes, 5, salt), None);
        assert_eq!(SyncMark::decode(&bytes, 4, Salt(78)), None);
        for byte in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 4;
            assert_eq!(SyncMark::decode(&flipped, 4, salt), None, "byte {byte}");
        }
    }

    #[test]
    fn a_segments_number_can_be_read_from_its_file_name() {
        assert_eq!(id_in_name(&file_name(7)), Some(7));
        assert_eq!(id_in_spare_name(&spare_name(7)), Some(7));
        assert_eq!(id_in_name(&spare_name(7)), None);
        assert_eq!(id_in_name("LOCK"), None);
    }
}
