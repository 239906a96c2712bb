//! Locks for transactions that must read their object before they change it. They make the
//! transactions of one process on one object run one after another.
//!
//! Without them, concurrent transactions of one object would read the same version, and all but one
//! would have to begin again. The hash of an object's name chooses its lock, so there is a fixed
//! number of locks. Two objects with one lock only wait for each other.

use std::hash::{DefaultHasher, Hash, Hasher};

use nacre_object::ObjectId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks: more than transactions are ever under way.
const LOCKS: usize = 1024;

/// The locks of one engine.
#[derive(Debug)]
pub struct ObjectLocks(Box<[Mutex<()>]>);

impl Default for ObjectLocks {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::new(())).collect())
    }
}

impl ObjectLocks {
    /// Waits until it is the caller's turn on the object. The turn ends when the returned guard is
    /// dropped.
    pub async fn take(&self, object: &ObjectId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        object.hash(&mut hasher);
        let number = (hasher.finish() % self.0.len() as u64) as usize;
        self.0[number].lock().await
    }
}
