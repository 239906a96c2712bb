//! Remembers which table entries have released their payloads, so that compaction looks up fewer
//! entries.
//!
//! To empty a segment, compaction looks up every table entry that the segment's records name as the
//! *owner* of a payload, that is, as an entry that refers to it. Most of these entries have other
//! values by then: they have *released* the payload. Compaction need not look up the entries that
//! are remembered here, in bounded memory, until the process ends. If such an entry refers to the
//! payload again, a reference in the tables names the entry.
//!
//! **Invariant:** a release is remembered only once the tables contain it.
//!
//! Forgetting a release costs only a look-up. Owners are compared by the checksum of their key. If
//! two owners of one payload have the same checksum, compaction may overlook one, and fail to move
//! the payload. The segment is then kept, because entries still refer to bytes in it.

use std::collections::HashMap;

/// The number of releases that are remembered for all segments together: 16 MiB of memory. A store
/// with payloads of 1 KiB reaches it once 2 GiB of them were replaced.
const MAX_RELEASED: usize = 2 * 1024 * 1024;

/// A payload that its owner released: its offset in the segment, and the checksum of the key of the
/// former owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReleasedPayload {
    offset: u32,
    owner: u32,
}

impl ReleasedPayload {
    pub fn new(offset: u32, owner: &[u8]) -> Self {
        Self { offset, owner: crc32c::crc32c(owner) }
    }
}

/// The remembered releases of all segments.
#[derive(Debug, Default)]
pub(crate) struct ReleasedPayloads {
    segments: HashMap<u32, Vec<ReleasedPayload>>,
    count: usize,
}

impl ReleasedPayloads {
    pub fn note(&mut self, segment: u32, payload: ReleasedPayload) {
        if self.count < MAX_RELEASED {
            self.segments.entry(segment).or_default().push(payload);
            self.count += 1;
        }
    }

    /// Drops what is remembered of a segment that was freed.
    pub fn forget(&mut self, segment: u32) {
        let forgotten = self.segments.remove(&segment);
        self.count -= forgotten.map_or(0, |payloads| payloads.len());
    }

    pub fn of(&self, segment: u32) -> SegmentReleases {
        let mut payloads = self.segments.get(&segment).cloned().unwrap_or_default();
        payloads.sort_unstable();
        SegmentReleases(payloads)
    }
}

/// The remembered releases of one segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentReleases(Vec<ReleasedPayload>);

impl SegmentReleases {
    pub fn has(&self, offset: u32, owner: &[u8]) -> bool {
        self.0.binary_search(&ReleasedPayload::new(offset, owner)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_remembered_by_segment_offset_and_owner_until_the_segment_is_freed() {
        let mut released = ReleasedPayloads::default();
        for (segment, offset, owner) in [(3, 8192, "b"), (3, 4096, "a"), (4, 4096, "a")] {
            released.note(segment, ReleasedPayload::new(offset, owner.as_bytes()));
        }
        let has = |released: &ReleasedPayloads, segment, offset, owner: &str| {
            released.of(segment).has(offset, owner.as_bytes())
        };
        assert!(has(&released, 3, 4096, "a") && has(&released, 3, 8192, "b"));
        assert!(!has(&released, 3, 4096, "b") && !has(&released, 5, 4096, "a"));
        released.forget(3);
        released.forget(5);
        assert!(!has(&released, 3, 4096, "a") && has(&released, 4, 4096, "a"));
        assert_eq!(released.count, 1);
    }

    #[test]
    fn the_number_of_remembered_releases_is_bounded() {
        let mut released =
            ReleasedPayloads { count: MAX_RELEASED - 1, ..ReleasedPayloads::default() };
        for offset in [1, 2] {
            released.note(0, ReleasedPayload::new(offset, b"a"));
        }
        let of = released.of(0);
        assert!(of.has(1, b"a") && !of.has(2, b"a"));
    }
}
