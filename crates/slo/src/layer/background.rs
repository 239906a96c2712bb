//! nacre's own background work, which shares a target as a tenant of its own.
//!
//! A layout change of an object is a request, and its method identifies it. Scrub and compaction
//! send no requests; they ask for their turn with
//! [`NodeSlo::background`](super::NodeSlo::background).

use nacre_calls::MIGRATE_METHOD;
use nacre_object::{Op, Request};

use super::target_queue::Permit;

/// A piece of background work that may run. It ends when this value is dropped.
#[derive(Debug)]
pub struct BackgroundWork(pub(super) Permit);

impl BackgroundWork {
    /// Ends the work, which has moved this many bytes.
    pub fn done(self, moved_bytes: u64) {
        self.0.leave(Some(moved_bytes));
    }
}

/// Whether a request is nacre's own: a step of a layout change.
pub(super) fn is_background(request: &Request) -> bool {
    let is_migration =
        |op: &Op| matches!(op, Op::Call(call) if call.method.as_str() == MIGRATE_METHOD);
    request.ops.iter().any(is_migration)
}
