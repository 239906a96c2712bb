//! Telling the cluster log what was denied, each kind of thing at most once a second.

use nacre_object::{EntityName, NodeName};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::events::{Event, Events, Report, ReportRate, Severity, Sited};

/// Denials waiting for the reporter. More means the cluster log does not answer; further ones are
/// left out.
const MAX_WAITING: usize = 1024;

/// Somebody was denied something.
#[derive(Debug, Clone)]
pub(super) struct Denial {
    /// Who, and the grant that is missing.
    site: (EntityName, String),
    text: String,
}

impl Denial {
    /// `entity` lacks `grant`; `text` is what it was told.
    pub(super) fn new(entity: EntityName, grant: String, text: String) -> Self {
        Self { site: (entity, grant), text }
    }
}

impl Sited for Denial {
    type Site = (EntityName, String);

    fn site(&self) -> &Self::Site {
        &self.site
    }
}

/// Takes denials to the cluster log. It ends with its last clone.
#[derive(Debug, Clone)]
pub(super) struct DenialReporter(mpsc::Sender<Denial>);

impl DenialReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub(super) fn start(events: Events, node: NodeName) -> Self {
        let (denials, waiting) = mpsc::channel(MAX_WAITING);
        tokio::spawn(report_all(waiting, events, node));
        Self(denials)
    }

    /// Takes a denial. Never waits.
    pub(super) fn report(&self, denial: Denial) {
        // Full or closed: the message was refused, which is what must not be lost.
        let _ = self.0.try_send(denial);
    }
}

async fn report_all(mut waiting: mpsc::Receiver<Denial>, events: Events, node: NodeName) {
    let started = Instant::now();
    let mut rate = ReportRate::default();
    loop {
        let reports: Vec<Report<Denial>> = tokio::select! {
            denial = waiting.recv() => match denial {
                Some(denial) => rate.happened(denial, started.elapsed()).into_iter().collect(),
                None => return,
            },
            () = due(rate.next_due().map(|due| started + due)) => rate.due(started.elapsed()),
        };
        for Report { what: Denial { site: (entity, grant), text }, count } in reports {
            let event = Event::new(Severity::Warning, text)
                .node(node.clone())
                .field("entity", entity.as_str())
                .field("missing", grant)
                .field("count", count.to_string());
            // The log was asked again for some seconds; the node has more urgent things to do.
            let _ = events.append(event).await;
        }
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
