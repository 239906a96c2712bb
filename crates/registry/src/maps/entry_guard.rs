//! `EntryGuard`: keeps the commits of one writer in order, among those of other writers.

use bytes::Bytes;

/// A condition of a commit: the commit happens only if an entry has the value that the committer
/// expects. The commit then sets the entry to a new value.
///
/// A writer uses a guard with a new unique value in each of its commits. Then the map makes the
/// commits in the writer's order: it refuses a commit that arrives after a later one, and a commit
/// that arrives twice takes effect once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryGuard {
    /// The entry's key.
    pub(crate) key: String,
    /// The expected value; `None` if the entry must not exist.
    pub(crate) known: Option<Bytes>,
}
