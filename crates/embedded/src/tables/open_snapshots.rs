//! Tracks which snapshots of the tables are open, and the earliest of them. A merge must not drop
//! old values that an open snapshot can see.
//!
//! **Invariant:** entries that an open snapshot can see are kept until the snapshot is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use lsm_tree::SeqNo;

/// A snapshot sees every entry with a lower sequence number than this.
#[derive(Debug)]
pub(super) struct SnapshotNumber(pub SeqNo);

#[derive(Debug)]
pub(super) struct OpenSnapshots {
    latest: RwLock<Arc<SnapshotNumber>>,
    /// Earlier snapshots that were open when the next one began, oldest first.
    earlier: Mutex<Vec<Weak<SnapshotNumber>>>,
}

impl OpenSnapshots {
    pub fn starting_at(number: SeqNo) -> Self {
        Self { latest: RwLock::new(Arc::new(SnapshotNumber(number))), earlier: Mutex::default() }
    }

    pub fn latest(&self) -> Arc<SnapshotNumber> {
        Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins the next snapshot. Successive calls must pass rising numbers.
    pub fn advance_to(&self, number: SeqNo) {
        let next = Arc::new(SnapshotNumber(number));
        // Hold this lock to the end. Otherwise [`Self::earliest`] could run while the replaced
        // snapshot is neither the latest nor among the earlier ones.
        let mut earlier = self.earlier();
        let last = {
            let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *latest, next)
        };
        // Readers get only the latest snapshot. So nobody will use a replaced one that nobody uses
        // now.
        if Arc::strong_count(&last) > 1 {
            earlier.retain(|snapshot| snapshot.strong_count() > 0);
            earlier.push(Arc::downgrade(&last));
        }
    }

    /// The number of the earliest open snapshot, or of the latest if none is open.
    pub fn earliest(&self) -> SeqNo {
        let earlier = self.earlier();
        let latest = self.latest().0;
        earlier.iter().find_map(Weak::upgrade).map_or(latest, |snapshot| snapshot.0.min(latest))
    }

    fn earlier(&self) -> MutexGuard<'_, Vec<Weak<SnapshotNumber>>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_earliest_snapshot_is_the_oldest_open_one() {
        let snapshots = OpenSnapshots::starting_at(1);
        assert_eq!(snapshots.earliest(), 1);
        let first = snapshots.latest();
        snapshots.advance_to(5);
        let (second, again) = (snapshots.latest(), snapshots.latest());
        snapshots.advance_to(7);
        snapshots.advance_to(9);
        assert_eq!(snapshots.earliest(), 1);
        drop(first);
        assert_eq!(snapshots.earliest(), 5);
        drop(second);
        assert_eq!(snapshots.earliest(), 5);
        drop(again);
        assert_eq!(snapshots.earliest(), 9);
    }

    #[test]
    fn the_earliest_snapshot_is_never_later_than_an_open_one() {
        const MOMENTS: u64 = 100_000;
        let snapshots = OpenSnapshots::starting_at(1);
        // The number of the open snapshot; 0 while none is open.
        let held = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 2..MOMENTS {
                    let snapshot = snapshots.latest();
                    held.store(snapshot.0, Ordering::SeqCst);
                    snapshots.advance_to(number);
                    held.store(0, Ordering::SeqCst);
                }
                held.store(u64::MAX, Ordering::SeqCst);
            });
            loop {
                let before = held.load(Ordering::SeqCst);
                let earliest = snapshots.earliest();
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
        let snapshots = OpenSnapshots::starting_at(1);
        (2..100).for_each(|number| snapshots.advance_to(number));
        assert!(snapshots.earlier().is_empty());
    }
}
