//! `Pace`: limits the rate of the engine's background work.

use std::fmt;

/// Limits the rate of compaction, so that it does not crowd out requests. A process with a request
/// scheduler in front of its engine implements this.
pub trait Pace: fmt::Debug + Send + Sync {
    /// Blocks until a step of compaction may move this many bytes. The compaction thread calls this
    /// before the step, and drops the returned value after it. Do not block for long, because
    /// requests need the space that compaction frees.
    fn before_compaction(&self, bytes: u64) -> Box<dyn Send>;
}

/// Compaction never waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpaced;

impl Pace for Unpaced {
    fn before_compaction(&self, _: u64) -> Box<dyn Send> {
        Box::new(())
    }
}
