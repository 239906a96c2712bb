//! `EntryGuard`: keeps the commits of one writer in order, among those of other writers.

use bytes::Bytes;

/// A condition of a commit: the commit happens only if an entry has the value that the committer
/// expects. The commit then sets the entry to a new value.
///
/// If a writer sets the entry to a unique value in each commit, the map makes the writer's commits
/// in order. It refuses a commit that arrives after a later one. A commit that arrives twice takes
/// effect once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryGuard {
    /// The entry's key.
    pub(crate) key: String,
    /// The expected value; `None` if the entry must not exist.
    pub(crate) known: Option<Bytes>,
}
