//! Stores on one embedded engine, for logs on the Brados class.

use std::sync::Arc;

use nacre_class::ClassRuntime;
use nacre_clock::Clock;
use nacre_conformance::FaultyStore;
use nacre_embedded::{EmbeddedEngine, Options};
use tempfile::TempDir;

use crate::support::scoped::{Scoped, let_time_pass};

/// The class of its logs.
pub const CLASS: &str = nacre_log::BRADOS_CLASS;
/// Its method that writes what a client sends at a time.
pub const WRITES: &str = "write.batch";

/// Makes the stores of one cluster: one engine in a folder of its own.
pub struct Bed {
    engine: EmbeddedEngine,
    _folder: TempDir,
}

impl Bed {
    pub async fn new(classes: Arc<ClassRuntime>, clock: Arc<dyn Clock>) -> Self {
        let_time_pass();
        let folder = tempfile::tempdir().unwrap();
        let engine = EmbeddedEngine::open(Options::new(folder.path(), classes, clock)).unwrap();
        Self { engine, _folder: folder }
    }

    /// A store of its own.
    pub fn store(&self, name: &str) -> FaultyStore {
        FaultyStore::over_watched(Arc::new(Scoped::new(self.engine.clone(), format!("{name}-"))))
    }
}

/// The seeds of a test that tries `count` seeds in memory. With disks, which are slower, the test
/// tries an eighth of them.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    nacre_conformance::seeds(count.div_ceil(8))
}
