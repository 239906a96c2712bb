//! The mover brings routed bytes home (back to the node that holds the object) when no rule sends
//! them elsewhere any more.
//!
//! The mover moves a few bytes at a time, so other IO on these bytes waits only for a short time.
//! The mover can be interrupted at any point. If a node does not answer, the bytes of other nodes
//! come home nevertheless.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{NodeName, ObjectId, Op, Result};
use nacre_route::{Destination, Span};
use tokio::time::sleep;

use super::NodeSwitch;
use super::background::background;
use super::pieces::MOVED_BYTES;

/// Between looks for bytes to bring home.
const REST: Duration = Duration::from_millis(200);
/// Spans that are brought home between two rests.
const SPANS_AT_ONCE: usize = 64;

/// Brings bytes home until the task is aborted.
pub(super) async fn run(switch: Arc<NodeSwitch>) {
    // Nodes that did not answer. Their bytes must not hold up those of other nodes.
    let mut silent = BTreeSet::new();
    loop {
        sleep(REST).await;
        let away = switch.away(SPANS_AT_ONCE, &silent);
        if away.is_empty() {
            silent.clear();
        }
        for Away { object, span, node } in away {
            let is_silent = node.as_ref().is_some_and(|node| silent.contains(node));
            if !is_silent && switch.bring_home(&object, span).await.is_err() {
                silent.extend(node);
            }
        }
    }
}

/// Bytes that lie elsewhere, or may lie there.
struct Away {
    object: ObjectId,
    span: Span,
    /// The node that keeps them, if it is known.
    node: Option<NodeName>,
}

impl NodeSwitch {
    /// Brings some bytes home, as background work.
    pub(super) async fn bring_home(self: &Arc<Self>, object: &ObjectId, span: Span) -> Result<()> {
        let request = background(object.clone(), Op::Stat)?;
        self.run(self.base().clone(), request, Some(span)).await.map(drop)
    }

    /// Spans that lie elsewhere, or may lie there, although no rule sends writes of their objects
    /// away. Leaves out those of the nodes `but`.
    fn away(&self, most: usize, but: &BTreeSet<NodeName>) -> Vec<Away> {
        let core = self.core();
        let cut = |span: Span| {
            let end = span.end().min(span.start().saturating_add(MOVED_BYTES));
            Span::new(span.start(), end).unwrap_or(span)
        };
        let node_of = |object: &ObjectId, to: &Destination| {
            let place = self.locations().place(object, to);
            place.ok().flatten().map(|place| place.node)
        };
        let placed = core.table().all_placed();
        let placed =
            placed.filter(|(object, _)| !self.is_followed(object)).map(|(object, rule)| {
                let node = node_of(object, &rule.destination);
                Away { object: object.clone(), span: cut(rule.header.span), node }
            });
        let doubted = core.doubts.iter().filter(|doubt| !self.is_followed(&doubt.object));
        let doubted = doubted.map(|doubt| {
            let node = Some(doubt.place.node.clone());
            Away { object: doubt.object.clone(), span: cut(doubt.span), node }
        });
        let is_meant = |away: &Away| away.node.as_ref().is_none_or(|node| !but.contains(node));
        placed.chain(doubted).filter(is_meant).take(most).collect()
    }

    /// Whether the mover has nothing left to do, and no object is erasure-coded without a rule.
    pub(super) fn is_all_home(&self) -> bool {
        self.away(1, &BTreeSet::new()).is_empty() && self.erasures().are_only_as_ruled(self.term())
    }
}
