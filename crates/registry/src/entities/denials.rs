//! Reports denied requests to the cluster log, at most once a second for each kind of denial.

use nacre_object::{EntityName, Error, NodeName};

use crate::events::{Event, Events, RatedReporter, Severity, Sited, WINDOW, cut};
use crate::limits::MAX_EVENT_FIELD_BYTES;

/// An entity was denied something.
#[derive(Debug, Clone)]
pub(super) struct Denial {
    /// The entity, and the key under which its denials are counted together.
    site: (EntityName, String),
    /// The grant that is missing.
    grant: String,
    text: String,
}

impl Denial {
    /// Makes the record that `entity` was denied an action for lack of `grant`. Denials with the
    /// same `kind` are counted together; `text` is the message that the entity got. These strings
    /// may contain long names chosen by the entity, and many denials are kept, so each string is
    /// cut.
    pub(super) fn new(entity: EntityName, kind: String, grant: String, text: String) -> Self {
        let [kind, grant, text] = [kind, grant, text].map(|said| cut(said, MAX_EVENT_FIELD_BYTES));
        Self { site: (entity, kind), grant, text }
    }

    /// The error that the entity gets.
    pub(super) fn error(&self) -> Error {
        let Self { site: (entity, _), grant, text } = self;
        Error::denied(text.clone())
            .hint(format!("an administrator can allow it: nacre entity grant {entity} '{grant}'"))
    }
}

impl Sited for Denial {
    type Site = (EntityName, String);

    fn site(&self) -> &Self::Site {
        &self.site
    }
}

/// Reports denials to the cluster log. The reporter ends when its last clone is dropped.
#[derive(Debug, Clone)]
pub(super) struct DenialReporter(RatedReporter<Denial>);

impl DenialReporter {
    /// A reporter for a node. Needs a tokio runtime.
    pub(super) fn start(events: Events, node: NodeName) -> Self {
        let event = move |Denial { site: (entity, _), grant, text }: Denial, count: u64| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_keeps_only_the_beginning_of_long_names() {
        let long = || "x".repeat(16 << 20);
        let denial = Denial::new(EntityName::new("alice").unwrap(), long(), long(), long());
        let Denial { site: (_, kind), grant, text } = &denial;
        let kept = kind.capacity() + grant.capacity() + text.capacity();
        assert!(kept <= 6 * MAX_EVENT_FIELD_BYTES, "{kept} bytes");
        let error = denial.error();
        assert!(error.message().ends_with('…') && error.message().len() <= MAX_EVENT_FIELD_BYTES);
    }
}
