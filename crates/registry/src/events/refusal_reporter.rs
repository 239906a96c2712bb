//! Reporting peers that did not get in.

use std::time::Duration;

use nacre_object::NodeName;

use super::event::cut;
use super::rated_reporter::RatedReporter;
use super::report_rate::Sited;
use super::{Event, Events, Severity};
use crate::limits::MAX_EVENT_FIELD_BYTES;

/// One event a reason in this time. Anybody who reaches the port can cause one, so it is long enough
/// that whoever goes on for a day leaves room in the log for what else happens.
const WINDOW: Duration = Duration::from_secs(60);

/// Somebody did not get in.
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

/// Puts refused peers into the cluster log: of each reason one event at once, then one a minute with
/// how many there were. It ends with its last clone.
#[derive(Debug, Clone)]
pub struct RefusalReporter(RatedReporter<Refusal>);

impl RefusalReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub fn start(events: Events, node: NodeName) -> Self {
        let event = move |refusal: Refusal, count: u64| {
            let Refusal { reason, from, text } = refusal;
            Event::new(Severity::Warning, format!("a peer did not get in: {text}"))
                .node(node.clone())
                .field("reason", reason)
                .field("from", from)
                .field("count", count.to_string())
        };
        Self(RatedReporter::start(events, WINDOW, event))
    }

    /// Takes a peer that was refused for a `reason`, which `text` says for people; `from` is where it
    /// came from. Never waits.
    pub fn report(&self, reason: &'static str, from: &str, text: String) {
        let text = cut(text, MAX_EVENT_FIELD_BYTES);
        self.0.report(Refusal { reason, from: from.to_owned(), text });
    }
}
