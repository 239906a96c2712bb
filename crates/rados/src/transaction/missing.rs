//! Collects the parts of an object that a run needed but the image lacked, to fetch them in one
//! compound read.
//!
//! A method may go on after a missing part, and request more parts until its time is over. With all
//! parts present, it might not need these later parts. So only some of the missing parts are
//! fetched. The others are fetched only if a later run requests them again.

use std::collections::BTreeSet;

use crate::ffi::Fetch;

/// The most missing parts of one run that the next fetch reads. This limit is high enough that a
/// run needs few fetches, and low enough that even the largest parts fit into memory.
pub const MAX_MISSES: usize = 128;
/// The most ranges among the missing parts. Several ranges may return the same entries.
const MAX_RANGES: usize = 4;

/// The missing parts of a run.
///
/// **Invariant:** no part is in this list twice, and all keys together are fetched as one part of
/// the read.
#[derive(Debug, Default)]
pub struct Missing {
    keys: BTreeSet<Vec<u8>>,
    others: Vec<Fetch>,
}

impl Missing {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.others.is_empty()
    }

    /// Notes a missing part, unless the list is full.
    pub fn note(&mut self, fetch: Fetch) {
        if self.keys.len() + self.others.len() >= MAX_MISSES {
            return;
        }
        match fetch {
            Fetch::Keys(keys) => self.keys.extend(keys),
            other if self.others.contains(&other) => {}
            Fetch::Range { .. } if self.ranges() >= MAX_RANGES => {}
            other => self.others.push(other),
        }
    }

    /// The most bytes of data that the parts can have.
    pub fn data_bytes(&self) -> usize {
        self.others.iter().map(Fetch::data_bytes).sum()
    }

    fn ranges(&self) -> usize {
        self.others.iter().filter(|fetch| matches!(fetch, Fetch::Range { .. })).count()
    }

    /// The parts to fetch.
    pub fn into_fetches(self) -> Vec<Fetch> {
        let mut fetches = self.others;
        if !self.keys.is_empty() {
            fetches.push(Fetch::Keys(self.keys.into_iter().collect()));
        }
        fetches
    }
}
