//! A set of recent findings about objects, methods and the like, in a fixed amount of memory.
//!
//! A finding about an object or method stays for a while, in the slot that the hash of its name
//! chooses. If two names have the same slot, a finding about one counts for the other, too. So the
//! set serves only for hints that may be wrong, for example whether a method's answers are too long
//! for an OSD.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cluster::placement_seed::{PlacementSeed, SEEDS};

/// The number of slots. Each placement seed has its own slot, and other names seldom share one.
const SLOTS: usize = SEEDS;
/// How long a finding counts. A daemon that was restarted may have other classes than before.
pub const VALIDITY: Duration = Duration::from_secs(30);

/// A set of things that forgets.
#[derive(Debug)]
pub struct RecentSet(Box<[AtomicU64]>);

impl Default for RecentSet {
    fn default() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl RecentSet {
    /// Remembers it; `now` is a monotonic time.
    pub fn note(&self, thing: impl Into<Slot>, now: Duration) {
        self.slot(thing).store(micros(now + VALIDITY), Ordering::Relaxed);
    }

    /// Whether it was noted lately.
    pub fn holds(&self, thing: impl Into<Slot>, now: Duration) -> bool {
        self.slot(thing).load(Ordering::Relaxed) > micros(now)
    }

    fn slot(&self, thing: impl Into<Slot>) -> &AtomicU64 {
        &self.0[thing.into().0 % SLOTS]
    }
}

/// Where a thing is kept.
#[derive(Debug, Clone, Copy)]
pub struct Slot(usize);

impl From<PlacementSeed> for Slot {
    /// Each has its own.
    fn from(seed: PlacementSeed) -> Self {
        Self(seed.number())
    }
}

impl<T: Hash> From<&T> for Slot {
    fn from(thing: &T) -> Self {
        let mut hasher = DefaultHasher::new();
        thing.hash(&mut hasher);
        Self(hasher.finish() as usize)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_the_set_for_a_while() {
        let recent = RecentSet::default();
        let began = Duration::from_secs(100);
        assert!(!recent.holds(&"a", began));
        recent.note(&"a", began);
        assert!(recent.holds(&"a", began + VALIDITY / 2));
        assert!(!recent.holds(&"a", began + VALIDITY));
    }
}
