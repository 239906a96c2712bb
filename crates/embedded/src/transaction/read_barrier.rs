//! Makes a read wait until every acknowledged change of its object is in the tables.
//!
//! The committer sends a group's replies as soon as the group is synced, before the applier writes
//! its changes to the tables. Reads use the tables only. So a read of an object that such a group
//! changed waits until the tables have that group. A hash of the object selects one of many slots,
//! which holds the number of the last such group. Objects share slots. So a read may wait for
//! another object's change, but it never misses a change of its own object.
//!
//! **Invariants:** a group is noted as answered before any of its replies is sent, and as applied
//! after the tables have it. So a read that begins after a reply sees the change that was
//! acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nacre_object::Result;
use tokio::sync::Notify;

use crate::health::Health;

/// The number of slots that record which group last changed an object. Objects share slots. A group
/// has far fewer objects than there are slots, so few reads wait for changes of other objects.
const SLOTS: usize = 4096;
const _: () = assert!(SLOTS.is_power_of_two());

/// Records which groups of the journal are answered, by object, and which groups are in the tables.
#[derive(Debug)]
pub(crate) struct ReadBarrier {
    /// The last group answered that changed an object of the slot.
    answered: Box<[AtomicU64]>,
    /// The last group answered.
    last_answered: AtomicU64,
    /// The last group that is in the tables.
    applied: AtomicU64,
    /// The tables have failed, so changes that are acknowledged will not get into them.
    is_stuck: AtomicBool,
    /// `applied` has moved, or never will again.
    moved: Notify,
    health: Arc<Health>,
}

impl ReadBarrier {
    /// A barrier for tables that have everything up to the group `applied`.
    pub fn new(applied: u64, health: Arc<Health>) -> Self {
        let answered = (0..SLOTS).map(|_| AtomicU64::new(applied)).collect();
        let (last_answered, applied) = (AtomicU64::new(applied), AtomicU64::new(applied));
        let (is_stuck, moved) = (AtomicBool::new(false), Notify::new());
        Self { answered, last_answered, applied, is_stuck, moved, health }
    }

    fn slot(&self, object_hash: u64) -> &AtomicU64 {
        // The low bits of the hash select the shard, so use others.
        &self.answered[(object_hash >> 32) as usize % SLOTS]
    }

    /// Notes that a group, which changed these objects, is about to be answered.
    pub fn note_answered(&self, group: u64, object_hashes: impl Iterator<Item = u64>) {
        for hash in object_hashes {
            self.slot(hash).store(group, Ordering::Release);
        }
        self.last_answered.store(group, Ordering::Release);
    }

    /// Says that the tables have everything up to a group.
    pub fn note_applied(&self, group: u64) {
        self.applied.store(group, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// Notes that nothing more will come into the tables. The engine must be poisoned already.
    pub fn note_stuck(&self) {
        self.is_stuck.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }

    /// The last group that is in the tables.
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Returns the journal group that a read of this object must wait for, or `None` if the tables
    /// have it already.
    pub fn awaited(&self, object_hash: u64) -> Option<u64> {
        self.unapplied(self.slot(object_hash).load(Ordering::Acquire))
    }

    /// The same for a read of all objects.
    pub fn awaited_of_all(&self) -> Option<u64> {
        self.unapplied(self.last_answered.load(Ordering::Acquire))
    }

    fn unapplied(&self, group: u64) -> Option<u64> {
        (group > self.applied()).then_some(group)
    }

    /// Waits until the changes of a journal group are in the tables.
    ///
    /// # Errors
    /// `Unavailable` if the tables have failed. The group stays in the journal, and is replayed
    /// when the store is opened again.
    pub async fn wait(&self, group: u64) -> Result<()> {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            if self.applied() >= group {
                return Ok(());
            }
            if self.is_stuck.load(Ordering::Acquire) {
                self.health.check()?;
            }
            moved.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    const HASH: u64 = 7 << 32;
    const OTHER: u64 = 8 << 32;

    fn at(applied: u64) -> (Arc<ReadBarrier>, Arc<Health>) {
        let health = Arc::new(Health::default());
        (Arc::new(ReadBarrier::new(applied, Arc::clone(&health))), health)
    }

    #[test]
    fn a_read_waits_for_an_answered_change_of_its_object_that_is_not_applied() {
        let (read_barrier, _) = at(3);
        assert_eq!((read_barrier.awaited(HASH), read_barrier.awaited_of_all()), (None, None));
        read_barrier.note_answered(4, [HASH].into_iter());
        assert_eq!((read_barrier.awaited(HASH), read_barrier.awaited(OTHER)), (Some(4), None));
        assert_eq!(read_barrier.awaited_of_all(), Some(4));
        read_barrier.note_applied(4);
        assert_eq!((read_barrier.awaited(HASH), read_barrier.awaited_of_all()), (None, None));
    }

    #[tokio::test]
    async fn a_waiting_read_goes_on_once_the_tables_have_the_group_or_have_failed() {
        let (read_barrier, health) = at(3);
        read_barrier.wait(3).await.unwrap();
        let waiting = |group| {
            let read_barrier = Arc::clone(&read_barrier);
            tokio::spawn(async move { read_barrier.wait(group).await })
        };
        let (soon, never) = (waiting(4), waiting(5));
        tokio::task::yield_now().await;
        // A failed write or sync does not end the wait: the applier still applies the groups that
        // were synced before it.
        health.poison("the tables are gone");
        read_barrier.note_applied(4);
        soon.await.unwrap().unwrap();
        read_barrier.note_stuck();
        assert_eq!(never.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
