//! The parts of an object that a run turned out to need, as one compound read.
//!
//! A method may go on after a miss, and look at more parts as long as it has time. Those are
//! guesses, so only some of them are fetched, and the others when they are missed again.

use std::collections::BTreeSet;

use crate::ffi::Fetch;

/// Misses of one run that are fetched. Enough that a method which goes on gets far, and few enough
/// that even the largest parts fit.
pub const MAX_MISSES: usize = 128;
/// Ranges among them: each may bring the same entries.
const MAX_RANGES: usize = 4;

/// The missing parts. **Invariant:** no part is in it twice, and all keys are one part of the read.
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

    /// Notes a miss, unless there are enough.
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

    /// So many bytes of data it may bring.
    pub fn data_bytes(&self) -> usize {
        self.others.iter().map(Fetch::data_bytes).sum()
    }

    fn ranges(&self) -> usize {
        self.others.iter().filter(|fetch| matches!(fetch, Fetch::Range { .. })).count()
    }

    /// What to fetch.
    pub fn into_fetches(self) -> Vec<Fetch> {
        let mut fetches = self.others;
        if !self.keys.is_empty() {
            fetches.push(Fetch::Keys(self.keys.into_iter().collect()));
        }
        fetches
    }
}
