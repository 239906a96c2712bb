//! `Pace`: when the engine's own work in the background may go on.

use std::fmt;

/// Keeps compaction from crowding out requests. A process with a scheduler in front of its engine implements this.
pub trait Pace: fmt::Debug + Send + Sync {
    /// Blocks until a step of compaction may move this many bytes. It must not block for long,
    /// because requests need the space that compaction frees. The caller drops the returned value
    /// when the step is done.
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
