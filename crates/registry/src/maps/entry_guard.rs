//! `EntryGuard`: what orders the commits of one writer among many.

use bytes::Bytes;

/// A commit that happens only while an entry, which it sets anew, is as its committer knows it.
///
/// Where each commit sets the entry to something no other does, commits of one writer come in its
/// order: one that was sent before another and arrives after it is refused, and the same one that
/// arrives twice is done once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryGuard {
    /// The entry's key.
    pub(crate) key: String,
    /// What it is; `None` if it is not there.
    pub(crate) known: Option<Bytes>,
}
