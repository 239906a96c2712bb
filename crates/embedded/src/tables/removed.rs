//! When what was removed is worth a merge of all files.

/// The share of entries that say that something was removed from which on a merge gives room: each of them
/// goes, with what it removed.
const REMOVED_SHARE: f64 = 0.25;
/// What the merge writes may take this share of the room there is, as it takes it before it gives any.
const ROOM_SHARE: f64 = 0.5;

/// What is in the files of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub bytes: u64,
    pub entries: u64,
    /// Of the entries, those that say that something was removed.
    pub removals: u64,
}

impl Files {
    pub fn are_worth_merging(self, free_bytes: u64) -> bool {
        if self.entries == 0 {
            return false;
        }
        let removed = self.removals as f64 / self.entries as f64;
        // Each may be of something that is gone already: then all the others remain.
        let remaining = self.bytes as f64 * (1.0 - removed);
        removed >= REMOVED_SHARE && remaining <= free_bytes as f64 * ROOM_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_that_was_removed_is_worth_a_merge_for_which_there_is_room() {
        let files = Files { bytes: 1000, entries: 100, removals: 40 };
        assert!(files.are_worth_merging(1200));
        assert!(!files.are_worth_merging(1199), "600 bytes may remain");
        assert!(!Files { removals: 24, ..files }.are_worth_merging(u64::MAX));
        assert!(!Files { bytes: 0, entries: 0, removals: 0 }.are_worth_merging(u64::MAX));
    }
}
