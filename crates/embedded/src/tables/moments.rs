//! Tracks which snapshots of the tables are open, and the earliest of them.
//!
//! **Invariant:** entries that an open snapshot can see are kept until it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use lsm_tree::SeqNo;

/// A moment: everything is seen that was written with a lower number.
#[derive(Debug)]
pub(super) struct Moment(pub SeqNo);

#[derive(Debug)]
pub(super) struct Moments {
    latest: RwLock<Arc<Moment>>,
    /// Those before it that somebody held when they were the latest, oldest first.
    earlier: Mutex<Vec<Weak<Moment>>>,
}

impl Moments {
    pub fn starting_at(number: SeqNo) -> Self {
        Self { latest: RwLock::new(Arc::new(Moment(number))), earlier: Mutex::default() }
    }

    pub fn latest(&self) -> Arc<Moment> {
        Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes another the latest; the numbers given rise.
    pub fn advance_to(&self, number: SeqNo) {
        let next = Arc::new(Moment(number));
        // This lock is held to the end, so [`Self::earliest`] never runs while the last snapshot is
        // neither the latest nor among the earlier ones.
        let mut earlier = self.earlier();
        let last = {
            let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *latest, next)
        };
        // Only the latest is given to others, so nobody comes to hold one that nobody held.
        if Arc::strong_count(&last) > 1 {
            earlier.retain(|moment| moment.strong_count() > 0);
            earlier.push(Arc::downgrade(&last));
        }
    }

    /// The number of the earliest moment that is held, or else of the latest.
    pub fn earliest(&self) -> SeqNo {
        let earlier = self.earlier();
        let latest = self.latest().0;
        earlier.iter().find_map(Weak::upgrade).map_or(latest, |moment| moment.0.min(latest))
    }

    fn earlier(&self) -> MutexGuard<'_, Vec<Weak<Moment>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_earliest_snapshot_is_the_oldest_open_one() {
        let moments = Moments::starting_at(1);
        assert_eq!(moments.earliest(), 1);
        let first = moments.latest();
        moments.advance_to(5);
        let (second, again) = (moments.latest(), moments.latest());
        moments.advance_to(7);
        moments.advance_to(9);
        assert_eq!(moments.earliest(), 1);
        drop(first);
        assert_eq!(moments.earliest(), 5);
        drop(second);
        assert_eq!(moments.earliest(), 5);
        drop(again);
        assert_eq!(moments.earliest(), 9);
    }

    #[test]
    fn the_earliest_snapshot_is_never_later_than_an_open_one() {
        const MOMENTS: u64 = 100_000;
        let moments = Moments::starting_at(1);
        // The number of a moment that is held; 0 while none is.
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 2..MOMENTS {
                    let moment = moments.latest();
                    held.store(moment.0, Ordering::SeqCst);
                    moments.advance_to(number);
                    held.store(0, Ordering::SeqCst);
                }
                held.store(u64::MAX, Ordering::SeqCst);
            });
            loop {
                let before = held.load(Ordering::SeqCst);
                let earliest = moments.earliest();
                let after = held.load(Ordering::SeqCst);
                if after == u64::MAX {
                    break;
                }
                let is_held = before == after && before != 0;
                assert!(
                    !is_held || earliest <= before,
                    "{before} is held, {earliest} the earliest"
                );
            }
        });
    }

    #[test]
    fn snapshots_that_nobody_opened_are_not_tracked() {
        let moments = Moments::starting_at(1);
        (2..100).for_each(|number| moments.advance_to(number));
        assert!(moments.earlier().is_empty());
    }
}
