//! Pending checkpoints. A checkpoint is a journal position from which a replay may start, because
//! the tables have everything before it in files. It is pending until the flush thread has written
//! these files.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::manifest::Manifest;

/// A checkpoint to be made.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The checkpoint is complete once everything before this seal of the tables is in files.
    pub seal: u64,
    pub manifest: Manifest,
}

/// Pending checkpoints, earliest first.
///
/// **Invariant:** a later checkpoint has a later seal and a later position. So the upkeep holds the
/// lock while it finds the position and seals the tables.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints(Mutex<VecDeque<Candidate>>);

impl Checkpoints {
    pub fn lock(&self) -> MutexGuard<'_, VecDeque<Candidate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a checkpoint is complete, given that everything before the seal `written` is in
    /// files.
    pub fn has_one(&self, written: u64) -> bool {
        self.lock().front().is_some_and(|first| first.seal <= written)
    }

    /// Takes the latest checkpoint that is complete: everything up to the seal `written` is in
    /// files. Drops all earlier ones, because it replaces them.
    pub fn take_latest(&self, written: u64) -> Option<Manifest> {
        let mut candidates = self.lock();
        let count = candidates.partition_point(|candidate| candidate.seal <= written);
        candidates.drain(..count).next_back().map(|latest| latest.manifest)
    }
}
