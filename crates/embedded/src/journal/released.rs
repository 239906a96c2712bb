//! Payloads that whom their records name is known to have let go of.
//!
//! To empty a segment, everybody its records name is looked up, and nearly all have other values by then. Who lets go
//! of the whole of such a payload never comes back to it under that name: what goes on with an older payload has a
//! reference. So that is remembered for as long as the process lasts and there is room, and need not be looked up.
//!
//! **Invariant:** nothing is noted before the tables say the same. What is not noted is looked up; two owners of one
//! payload that are taken for each other leave it where it is, counted as before.

use std::collections::HashMap;

/// Payloads remembered, of all segments: 16 MiB. A store of payloads of 1 KiB that are all replaced has as many in
/// 2 GiB.
const MAX_RELEASED: usize = 2 * 1024 * 1024;

/// A payload of a segment, and who let go of it: where it begins and the checksum of the owner's key.
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

/// All that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Released {
    segments: HashMap<u32, Vec<ReleasedPayload>>,
    count: usize,
}

impl Released {
    pub fn note(&mut self, segment: u32, payload: ReleasedPayload) {
        if self.count < MAX_RELEASED {
            self.segments.entry(segment).or_default().push(payload);
            self.count += 1;
        }
    }

    /// Of a segment that is gone.
    pub fn forget(&mut self, segment: u32) {
        let forgotten = self.segments.remove(&segment);
        self.count -= forgotten.map_or(0, |payloads| payloads.len());
    }

    pub fn of(&self, segment: u32) -> ReleasedOf {
        let mut payloads = self.segments.get(&segment).cloned().unwrap_or_default();
        payloads.sort_unstable();
        ReleasedOf(payloads)
    }
}

/// What is remembered of a segment.
#[derive(Debug, Default)]
pub(crate) struct ReleasedOf(Vec<ReleasedPayload>);

impl ReleasedOf {
    pub fn has(&self, offset: u32, owner: &[u8]) -> bool {
        self.0.binary_search(&ReleasedPayload::new(offset, owner)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_known_by_segment_place_and_owner_until_the_segment_is_gone() {
        let mut released = Released::default();
        for (segment, offset, owner) in [(3, 8192, "b"), (3, 4096, "a"), (4, 4096, "a")] {
            released.note(segment, ReleasedPayload::new(offset, owner.as_bytes()));
        }
        let has = |released: &Released, segment, offset, owner: &str| {
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
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut released = Released { count: MAX_RELEASED - 1, ..Released::default() };
        for offset in [1, 2] {
            released.note(0, ReleasedPayload::new(offset, b"a"));
        }
        let of = released.of(0);
        assert!(of.has(1, b"a") && !of.has(2, b"a"));
    }
}
