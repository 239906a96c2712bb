//! Stores in memory.

use std::sync::Arc;

use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_conformance::{FaultyStore, MemoryStore};

/// The class of its logs.
#[allow(dead_code, reason = "another bed has its own")]
pub const CLASS: &str = nacre_log::NATIVE_CLASS;
/// Its method that writes what a client sends at a time.
#[allow(dead_code, reason = "another bed has its own")]
pub const WRITES: &str = "write_batch";

/// Makes the stores of one cluster.
pub struct Bed {
    classes: Arc<ClassRuntime>,
    clock: Arc<dyn Clock>,
}

impl Bed {
    pub async fn new(classes: Arc<ClassRuntime>, clock: Arc<dyn Clock>) -> Self {
        Self { classes, clock }
    }

    /// A store of its own.
    pub fn store(&self, _: &str) -> FaultyStore {
        let (classes, clock) = (self.classes.clone(), self.clock.clone());
        FaultyStore::over_watched(Arc::new(MemoryStore::new(classes, clock)))
    }
}

/// The seeds of a test that tries so many.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    nacre_conformance::seeds(count)
}
