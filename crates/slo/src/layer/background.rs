//! nacre's own background work, which counts as a tenant of its own in the queues.
//!
//! A step of a layout change is a request, which this module recognises by its method. Requests that
//! copy objects to other targets name the tenant themselves. Scrub and compaction send no requests. Instead they ask
//! [`NodeSlo::background`](super::NodeSlo::background) for permission.

use nacre_calls::MIGRATE_METHOD;
use nacre_object::{Op, Request};

use super::target_queue::Permit;
use crate::records::BACKGROUND_TENANT;

/// Permission to do a piece of background work. The work ends when this value is dropped.
#[derive(Debug)]
pub struct BackgroundWork(pub(super) Permit);

impl BackgroundWork {
    /// Ends the work, which has moved this many bytes.
    pub fn done(self, moved_bytes: u64) {
        self.0.leave(Some(moved_bytes));
    }
}

/// Whether a request is nacre's own background work: a step of a layout change, or a request of the
/// background tenant.
pub(super) fn is_background(request: &Request) -> bool {
    let is_migration =
        |op: &Op| matches!(op, Op::Call(call) if call.method.as_str() == MIGRATE_METHOD);
    request.header.tenant.as_str() == BACKGROUND_TENANT || request.ops.iter().any(is_migration)
}
