//! A page of a map's history.

use super::EpochRecord;

/// Part of a map's history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The map's epoch when it was read.
    pub epoch: u64,
    /// The oldest epoch that the history keeps; `epoch + 1` if it keeps none.
    pub first_kept: u64,
    /// The requested records, as far as they are kept and fit into a page.
    pub records: Vec<EpochRecord>,
}
