//! `EntryGuard`: what orders the commits of one writer among many.

use bytes::Bytes;

/// A condition of a commit: the commit happens only if an entry has the value that the committer
/// knows. The commit also sets that entry to a new value.
///
/// If each commit sets the entry to a unique value, the commits of one writer are done in order. A
/// commit that arrives after a later one is refused, and a commit that arrives twice is done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryGuard {
    /// The entry's key.
    pub(crate) key: String,
    /// What it is; `None` if it is not there.
    pub(crate) known: Option<Bytes>,
}
