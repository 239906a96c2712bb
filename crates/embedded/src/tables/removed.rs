//! Decides when deleted entries are worth a merge of all table files.

/// If at least this share of all entries are tombstones, a merge of all files is worth its cost.
/// The merge drops each tombstone together with the entry that it deletes.
const REMOVED_SHARE: f64 = 0.25;
/// A merge of all files may write at most this share of the free space, because it deletes the old
/// files only at its end.
const ROOM_SHARE: f64 = 0.5;

/// What is in the files of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files {
    pub bytes: u64,
    pub entries: u64,
    /// The entries that are tombstones.
    pub removals: u64,
}

impl Files {
    pub fn are_worth_merging(self, free_bytes: u64) -> bool {
        if self.entries == 0 {
            return false;
        }
        let removed = self.removals as f64 / self.entries as f64;
        // The worst case: the tombstones match no entry in the files, so all other entries remain.
        let remaining = self.bytes as f64 * (1.0 - removed);
        removed >= REMOVED_SHARE && remaining <= free_bytes as f64 * ROOM_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tombstones_are_worth_a_merge_if_the_result_fits_on_the_disk() {
        let files = Files { bytes: 1000, entries: 100, removals: 40 };
        assert!(files.are_worth_merging(1200));
        assert!(!files.are_worth_merging(1199), "600 bytes may remain");
        assert!(!Files { removals: 24, ..files }.are_worth_merging(u64::MAX));
        assert!(!Files { bytes: 0, entries: 0, removals: 0 }.are_worth_merging(u64::MAX));
    }
}
