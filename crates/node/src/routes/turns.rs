//! `Turns`: lets the changes of one object take turns. Rules that keep versions use it, rules that apply
//! writes to copies, and rules that erasure-code objects.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::ObjectId;
use nacre_route::FastHashMap;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

type Locks = FastHashMap<ObjectId, Arc<RwLock<()>>>;

/// The objects that something has a turn at.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Locks>);

/// The turn of one change of an object, or of others that may run together. The next turn begins when
/// this value is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    object: ObjectId,
    lock: Arc<RwLock<()>>,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// It waits for its turn, or is over.
    Nothing,
    Alone(#[expect(dead_code, reason = "it ends when it is dropped")] OwnedRwLockWriteGuard<()>),
    Together(#[expect(dead_code, reason = "it ends when it is dropped")] OwnedRwLockReadGuard<()>),
}

impl Turns {
    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn at an object. Changes get their turns in the order in which they begin to
    /// wait.
    pub async fn wait(self: &Arc<Self>, object: &ObjectId) -> Turn {
        let mut turn = self.waiting(object);
        turn.held = Held::Alone(Arc::clone(&turn.lock).write_owned().await);
        turn
    }

    /// Waits for a turn that others of the same kind may share.
    pub async fn share(self: &Arc<Self>, object: &ObjectId) -> Turn {
        let mut turn = self.waiting(object);
        turn.held = Held::Together(Arc::clone(&turn.lock).read_owned().await);
        turn
    }

    fn waiting(self: &Arc<Self>, object: &ObjectId) -> Turn {
        let lock = Arc::clone(self.locks().entry(object.clone()).or_default());
        Turn { turns: Arc::clone(self), object: object.clone(), lock, held: Held::Nothing }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held = Held::Nothing;
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
        let (one, other) = (turns.share(&x).await, turns.share(&x).await);
        let mut alone = Box::pin(turns.wait(&x));
        assert!(poll!(&mut alone).is_pending());
        drop(one);
        assert!(poll!(&mut alone).is_pending());
        drop(other);
        drop(alone.await);
        assert!(turns.locks().is_empty());
    }
}
