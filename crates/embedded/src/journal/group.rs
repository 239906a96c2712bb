//! A group of journal records that become durable with one sync. Shards fill it; the committer
//! writes and syncs it.
//!
//! **Invariant:** once a group has a record, its position in the journal is fixed, because the
//! addresses of the record's payloads depend on it.

use super::Position;
use super::segment::{GroupHeader, Salt, Segment, round_up_to_block};

/// Records of one sync.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) segment: Segment,
    pub(super) position: Position,
    pub(super) salt: Salt,
    pub(super) bytes: Vec<u8>,
    pub(super) records: u32,
}

impl Group {
    pub fn number(&self) -> u64 {
        self.position.group
    }

    pub(super) fn empty(
        segment: Segment,
        position: Position,
        salt: Salt,
        mut bytes: Vec<u8>,
    ) -> Self {
        bytes.clear();
        bytes.resize(GroupHeader::BYTES, 0);
        Self { segment, position, salt, bytes, records: 0 }
    }

    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let end = u64::from(self.position.offset) + (self.bytes.len() + bytes) as u64;
        round_up_to_block(end) <= u64::from(self.segment.capacity)
    }

    /// The empty group that comes after this one in the same segment.
    pub(super) fn next(&self, buffer: Vec<u8>) -> Self {
        let length = round_up_to_block(self.bytes.len() as u64) as u32;
        let position = Position {
            offset: self.position.offset + length,
            group: self.position.group + 1,
            ..self.position
        };
        Self::empty(self.segment.clone(), position, self.salt, buffer)
    }

    /// Header and padding: what goes to the disk.
    pub(super) fn seal(&mut self) {
        let header = GroupHeader {
            segment: self.position.segment,
            length: self.bytes.len() as u32,
            number: self.position.group,
            records: self.records,
        };
        self.bytes[..GroupHeader::BYTES].copy_from_slice(&header.encode(self.salt));
        self.bytes.resize(round_up_to_block(self.bytes.len() as u64) as usize, 0);
    }
}
