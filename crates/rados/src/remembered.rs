//! What was found out lately about objects, methods and the like, in a fixed amount of memory.
//!
//! It is kept by the hash of what it is about, for a while: two things that share a place are taken for
//! each other, so only what may be wrong at times belongs here, such as which way is the shorter.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::cluster::placement_seed::{PlacementSeed, SEEDS};

/// Places: enough that few of the things in use share one, and one for each placement seed.
const PLACES: usize = SEEDS;
/// How long it counts: a daemon that was restarted may offer what it did not before.
pub const VALIDITY: Duration = Duration::from_secs(30);

/// A set of things that forgets.
#[derive(Debug)]
pub struct Remembered(Box<[AtomicU64]>);

impl Default for Remembered {
    fn default() -> Self {
        Self((0..PLACES).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Remembered {
    /// Remembers it; `now` is a monotonic time.
    pub fn note(&self, thing: impl Into<Place>, now: Duration) {
        self.place(thing).store(micros(now + VALIDITY), Ordering::Relaxed);
    }

    /// Whether it was noted lately.
    pub fn holds(&self, thing: impl Into<Place>, now: Duration) -> bool {
        self.place(thing).load(Ordering::Relaxed) > micros(now)
    }

    fn place(&self, thing: impl Into<Place>) -> &AtomicU64 {
        &self.0[thing.into().0 % PLACES]
    }
}

/// Where a thing is kept.
#[derive(Debug, Clone, Copy)]
pub struct Place(usize);

impl From<PlacementSeed> for Place {
    /// Each has its own.
    fn from(seed: PlacementSeed) -> Self {
        Self(seed.number())
    }
}

impl<T: Hash> From<&T> for Place {
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
    fn what_was_noted_is_held_for_a_while() {
        let remembered = Remembered::default();
        let began = Duration::from_secs(100);
        assert!(!remembered.holds(&"a", began));
        remembered.note(&"a", began);
        assert!(remembered.holds(&"a", began + VALIDITY / 2));
        assert!(!remembered.holds(&"a", began + VALIDITY));
    }
}
