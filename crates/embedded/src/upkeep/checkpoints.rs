//! Pending checkpoints: positions from which a replay may begin once the entries sealed until then
//! are in files.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::manifest::Manifest;

/// A checkpoint to be made.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Once everything before this seal of the tables is in files.
    pub seal: u64,
    pub manifest: Manifest,
}

/// Pending checkpoints, earliest first.
///
/// **Invariant:** seals and positions rise together. So the lock is held from finding the position
/// until the tables are sealed.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints(Mutex<VecDeque<Candidate>>);

impl Checkpoints {
    pub fn lock(&self) -> MutexGuard<'_, VecDeque<Candidate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is one of those up to a seal.
    pub fn has_one(&self, written: u64) -> bool {
        self.lock().front().is_some_and(|first| first.seal <= written)
    }

    /// Takes the latest checkpoint whose seal is at most `written`, and drops the earlier ones,
    /// which are no longer needed.
    pub fn take_latest(&self, written: u64) -> Option<Manifest> {
        let mut candidates = self.lock();
        let count = candidates.partition_point(|candidate| candidate.seal <= written);
        candidates.drain(..count).next_back().map(|latest| latest.manifest)
    }
}
