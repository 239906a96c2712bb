//! `Pace`: when the engine's own work in the background may go on.

use std::fmt;

/// Keeps compaction from crowding out requests: who puts an engine behind a scheduler gives compaction a place in it.
pub trait Pace: fmt::Debug + Send + Sync {
    /// Blocks until a step of compaction may move so many bytes, but only for a moment: compaction makes room that
    /// requests need. What is returned is dropped when the step is done.
    fn before_compaction(&self, bytes: u64) -> Box<dyn Send>;
}

/// Compaction goes on at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpaced;

impl Pace for Unpaced {
    fn before_compaction(&self, _: u64) -> Box<dyn Send> {
        Box::new(())
    }
}
