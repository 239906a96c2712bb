//! Telling the cluster log what was denied, each kind of thing at most once a second.

use nacre_object::{EntityName, NodeName};

use crate::events::{Event, Events, RatedReporter, Severity, Sited, WINDOW};

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
pub(super) struct DenialReporter(RatedReporter<Denial>);

impl DenialReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub(super) fn start(events: Events, node: NodeName) -> Self {
        let event = move |Denial { site: (entity, grant), text }: Denial, count: u64| {
            Event::new(Severity::Warning, text)
                .node(node.clone())
                .field("entity", entity.as_str())
                .field("missing", grant)
                .field("count", count.to_string())
        };
        Self(RatedReporter::start(events, WINDOW, event))
    }

    /// Takes a denial. Never waits.
    pub(super) fn report(&self, denial: Denial) {
        self.0.report(denial);
    }
}
