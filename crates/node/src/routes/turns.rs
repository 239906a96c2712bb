//! `Turns`: lets the changes of one object take turns. Rules that keep versions use it, and rules
//! that apply writes to copies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::ObjectId;
use nacre_route::FastHashMap;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Locks = FastHashMap<ObjectId, Arc<AsyncMutex<()>>>;

/// The objects that something has a turn at.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Locks>);

/// The turn of one change of an object. The next change begins when this value is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    object: ObjectId,
    lock: Arc<AsyncMutex<()>>,
    /// `None` while the change waits for its turn.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn at an object. Changes get their turns in the order in which they begin to
    /// wait.
    pub async fn wait(self: &Arc<Self>, object: &ObjectId) -> Turn {
        let lock = Arc::clone(self.locks().entry(object.clone()).or_default());
        let turns = Arc::clone(self);
        let mut turn = Turn { turns, object: object.clone(), lock, guard: None };
        turn.guard = Some(Arc::clone(&turn.lock).lock_owned().await);
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.turns.locks();
        // If nobody waits, only the map and this value have the lock.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn changes_of_one_object_take_turns_and_leave_nothing_behind() {
        let turns = Arc::new(Turns::default());
        let [x, y] = ["data/x", "data/y"].map(|name| name.parse::<ObjectId>().unwrap());
        let first = turns.wait(&x).await;
        let mut second = Box::pin(turns.wait(&x));
        assert!(poll!(&mut second).is_pending());
        drop(turns.wait(&y).await);
        drop(first);
        drop(second.await);
        let held = turns.wait(&x).await;
        let mut given_up = Box::pin(turns.wait(&x));
        assert!(poll!(&mut given_up).is_pending());
        drop(given_up);
        drop(held);
        assert!(turns.locks().is_empty());
    }
}
