//! One line of the cluster log.

use std::collections::BTreeMap;
use std::fmt;

use nacre_object::{NodeName, ProgramName};

use crate::limits::{MAX_EVENT_FIELD_BYTES, MAX_EVENT_FIELDS, MAX_EVENT_TEXT_BYTES};
use crate::programs::ProgramKind;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// As intended: a version changed, a node came.
    Info,
    /// Worth a look: something was retried or delayed.
    Warning,
    /// A request or program failed.
    Error,
}

impl Severity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which program an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProgramSite {
    /// Its kind.
    pub kind: ProgramKind,
    /// Its name.
    pub name: ProgramName,
    /// Its version; 0 if the event names none.
    pub version: u64,
    /// The line, 1-based, if the event names one.
    pub line: Option<u32>,
}

/// One line of the cluster log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event's number in the log, counted from 1. It is 0 until the event is appended.
    pub sequence: u64,
    /// When the event happened, in microseconds since 1970, UTC. If this is 0 or in the future, the
    /// log stores the time of the append instead.
    pub at_micros: u64,
    /// How much it matters.
    pub severity: Severity,
    /// The node where it happened, if it happened on one.
    pub node: Option<NodeName>,
    /// The program it is about, if it is about one.
    pub program: Option<ProgramSite>,
    /// A description for people.
    pub text: String,
    /// More, by name.
    pub fields: BTreeMap<String, String>,
}

impl Event {
    /// An event that happens now. Text past `MAX_EVENT_TEXT_BYTES` is cut.
    pub fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self {
            sequence: 0,
            at_micros: 0,
            severity,
            node: None,
            program: None,
            text: cut(text.into(), MAX_EVENT_TEXT_BYTES),
            fields: BTreeMap::new(),
        }
    }

    /// Says on which node.
    pub fn node(mut self, node: NodeName) -> Self {
        self.node = Some(node);
        self
    }

    /// Says about which program.
    pub fn program(mut self, program: ProgramSite) -> Self {
        self.program = Some(program);
        self
    }

    /// Adds a field. Cuts a value that is longer than `MAX_EVENT_FIELD_BYTES`. Does nothing if the
    /// event already has `MAX_EVENT_FIELDS` fields.
    pub fn field(mut self, name: &str, value: impl Into<String>) -> Self {
        if self.fields.len() < MAX_EVENT_FIELDS {
            self.fields.insert(name.to_owned(), cut(value.into(), MAX_EVENT_FIELD_BYTES));
        }
        self
    }
}

/// Cuts `text` to at most `limit` bytes and ends it with an ellipsis if it was longer. Also frees
/// the memory that the cut string no longer needs.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    const ELLIPSIS: char = '…';
    if text.len() > limit {
        let mut end = limit - ELLIPSIS.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push(ELLIPSIS);
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("short".into(), 5), "short");
        assert_eq!(cut("üüüü".into(), 8), "üüüü");
        assert_eq!(cut("üüüüü".into(), 8), "üü…");
        assert!(cut("x".repeat(1 << 20), 8).capacity() < 1024);
        assert_eq!(Event::new(Severity::Info, "x".repeat(9999)).text.len(), MAX_EVENT_TEXT_BYTES);
    }
}
