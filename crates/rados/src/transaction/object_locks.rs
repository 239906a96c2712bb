//! Locks for transactions that must read their object before they change it. They make one process
//! run its transactions on one object one after another.
//!
//! Without them, concurrent transactions on one object would read the same version, and all but one
//! would have to begin again. The hash of an object's name chooses its lock, so there is a fixed
//! number of locks. If two objects share a lock, their transactions only wait for each other.

use std::hash::{DefaultHasher, Hash, Hasher};

use nacre_object::ObjectId;
use tokio::sync::{Mutex, MutexGuard};

/// The number of locks: more than transactions ever in flight.
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
    /// Waits until no other transaction of this process runs on the object. Drop the returned guard
    /// to let the next one run.
    pub async fn take(&self, object: &ObjectId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        object.hash(&mut hasher);
        let number = (hasher.finish() % self.0.len() as u64) as usize;
        self.0[number].lock().await
    }
}
