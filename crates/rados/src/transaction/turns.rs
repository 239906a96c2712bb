//! Transactions of one object that must know it take turns within a process.
//!
//! Without that they would read the same version, and all but one would have to begin again. Which
//! lock an object has is by its name's hash, so there is a fixed number of them; two objects that
//! share one only wait for each other.

use std::hash::{DefaultHasher, Hash, Hasher};

use nacre_object::ObjectId;
use tokio::sync::{Mutex, MutexGuard};

/// Locks: more than transactions are ever under way.
const LOCKS: usize = 1024;

/// The locks of one engine.
#[derive(Debug)]
pub struct Turns(Box<[Mutex<()>]>);

impl Default for Turns {
    fn default() -> Self {
        Self((0..LOCKS).map(|_| Mutex::new(())).collect())
    }
}

impl Turns {
    /// Waits for the object's turn, which lasts as long as what this answers.
    pub async fn take(&self, object: &ObjectId) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        object.hash(&mut hasher);
        let number = (hasher.finish() % self.0.len() as u64) as usize;
        self.0[number].lock().await
    }
}
