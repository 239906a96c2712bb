//! The mover brings routed bytes home (back to the node that holds the object) when no rule sends
//! them elsewhere any more.
//!
//! The mover moves a few bytes at a time, so other IO on these bytes waits only for a short time.
//! The mover can be interrupted at any point.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::ObjectId;
use nacre_route::Span;
use tokio::time::sleep;

use super::NodeSwitch;
use super::pieces::MOVED_BYTES;

/// Between looks for bytes to bring home.
const REST: Duration = Duration::from_millis(200);
/// Spans that are brought home between two rests.
const SPANS_AT_ONCE: usize = 64;

/// Brings bytes home until the task is aborted.
pub(super) async fn run(switch: Arc<NodeSwitch>) {
    loop {
        sleep(REST).await;
        for (object, span) in switch.homesick(SPANS_AT_ONCE) {
            if switch.bring_home(&object, span).await.is_err() {
                // The node that keeps the bytes is down. The next round tries again.
                break;
            }
        }
    }
}

impl NodeSwitch {
    /// Spans that lie elsewhere, or may lie there, although no rule sends writes of their objects
    /// away.
    fn homesick(&self, most: usize) -> Vec<(ObjectId, Span)> {
        let core = self.core();
        let placed = core.table().all_placed().map(|(object, rule)| (object, rule.header.span));
        let doubted = core.doubts.iter().map(|doubt| (&doubt.object, doubt.span));
        let cut = |span: Span| {
            let end = span.end().min(span.start().saturating_add(MOVED_BYTES));
            Span::new(span.start(), end).unwrap_or(span)
        };
        let away = placed.chain(doubted).filter(|(object, _)| !self.is_followed(object));
        away.take(most).map(|(object, span)| (object.clone(), cut(span))).collect()
    }

    /// Whether the mover has nothing left to do.
    pub(super) fn is_all_home(&self) -> bool {
        self.homesick(1).is_empty()
    }
}
