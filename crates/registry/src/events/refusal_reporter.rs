//! Reports refused peers to the cluster log.

use std::time::Duration;

use nacre_object::NodeName;

use super::event::cut;
use super::rated_reporter::RatedReporter;
use super::report_rate::Sited;
use super::{Event, Events, Severity};
use crate::limits::MAX_EVENT_FIELD_BYTES;

/// At most one event is reported in this time for each reason to refuse a peer. Any peer that can
/// reach the port can cause these events. The time is so long that a day of refusals leaves space
/// in the log for other events.
const WINDOW: Duration = Duration::from_secs(60);

/// A peer was refused.
#[derive(Debug, Clone)]
struct Refusal {
    reason: &'static str,
    from: String,
    text: String,
}

impl Sited for Refusal {
    type Site = &'static str;

    fn site(&self) -> &Self::Site {
        &self.reason
    }
}

/// Reports refused peers to the cluster log. For each reason it reports the first refusal at once,
/// then at most one event a minute with the number of refusals. The reporter ends when its last
/// clone is dropped.
#[derive(Debug, Clone)]
pub struct RefusalReporter(RatedReporter<Refusal>);

impl RefusalReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub fn start(events: Events, node: NodeName) -> Self {
        let event = move |refusal: Refusal, count: u64| {
            let Refusal { reason, from, text } = refusal;
            Event::new(Severity::Warning, format!("a peer was refused: {text}"))
                .node(node.clone())
                .field("reason", reason)
                .field("from", from)
                .field("count", count.to_string())
        };
        Self(RatedReporter::start(events, WINDOW, event))
    }

    /// Notes a refused peer. `text` explains `reason` to people; `from` is the peer's address.
    /// Never waits.
    pub fn report(&self, reason: &'static str, from: &str, text: String) {
        let text = cut(text, MAX_EVENT_FIELD_BYTES);
        self.0.report(Refusal { reason, from: from.to_owned(), text });
    }
}
