//! The inputs, outputs and stored values of the class `events`, as protocol-buffer messages. Fields
//! may be added, but never renumbered.
//!
//! The header of the object's map is a [`Head`]. Each event is an [`EventMessage`] under the key
//! `e/` and its sequence number (8 bytes, big-endian).

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{Error, NodeName, ProgramName, Result};
use prost::Message;

use super::{Event, ProgramSite, Severity};
use crate::limits::{
    MAX_APPEND_ID_BYTES, MAX_EVENT_FIELD_BYTES, MAX_EVENT_FIELDS, MAX_EVENT_TEXT_BYTES,
};
use crate::programs::ProgramKind;

/// The version of this layout. A head with a greater one is `Unsupported`.
pub(super) const FORMAT: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Head {
    #[prost(uint32, tag = "1")]
    pub format: u32,
    /// The number of the newest event; 0 if there has been none.
    #[prost(uint64, tag = "2")]
    pub last: u64,
    /// The number of the oldest event that is kept.
    #[prost(uint64, tag = "3")]
    pub first_kept: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EventMessage {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(uint64, tag = "2")]
    pub at_micros: u64,
    #[prost(enumeration = "SeverityMessage", tag = "3")]
    pub severity: i32,
    /// Empty: none.
    #[prost(string, tag = "4")]
    pub node: String,
    #[prost(message, optional, tag = "5")]
    pub program: Option<ProgramMessage>,
    #[prost(string, tag = "6")]
    pub text: String,
    #[prost(btree_map = "string, string", tag = "7")]
    pub fields: BTreeMap<String, String>,
    /// By which a repeated append is recognised.
    #[prost(bytes = "bytes", tag = "8")]
    pub append_id: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum SeverityMessage {
    Info = 0,
    Warning = 1,
    Error = 2,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProgramMessage {
    /// As [`ProgramKind::as_str`].
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint64, tag = "3")]
    pub version: u64,
    #[prost(uint32, optional, tag = "4")]
    pub line: Option<u32>,
}

/// Input of `append`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AppendRequest {
    #[prost(message, optional, tag = "1")]
    pub event: Option<EventMessage>,
    /// An earlier attempt got no answer, so the class must check whether the event is already
    /// there.
    #[prost(bool, tag = "2")]
    pub again: bool,
}

/// Output of `append`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct AppendReply {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
}

/// Input of `read`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadRequest {
    /// Exclusive; absent: such that the newest `limit` are answered.
    #[prost(uint64, optional, tag = "1")]
    pub after: Option<u64>,
    #[prost(uint32, tag = "2")]
    pub limit: u32,
}

/// Output of `read`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ReadReply {
    #[prost(uint64, tag = "1")]
    pub last: u64,
    #[prost(uint64, tag = "2")]
    pub first_kept: u64,
    #[prost(message, repeated, tag = "3")]
    pub events: Vec<EventMessage>,
}

impl From<Event> for EventMessage {
    fn from(event: Event) -> Self {
        let severity = match event.severity {
            Severity::Info => SeverityMessage::Info,
            Severity::Warning => SeverityMessage::Warning,
            Severity::Error => SeverityMessage::Error,
        };
        Self {
            sequence: event.sequence,
            at_micros: event.at_micros,
            severity: severity.into(),
            node: event.node.map(|node| node.to_string()).unwrap_or_default(),
            program: event.program.map(|site| ProgramMessage {
                kind: site.kind.as_str().to_owned(),
                name: site.name.to_string(),
                version: site.version,
                line: site.line,
            }),
            text: event.text,
            fields: event.fields,
            append_id: Bytes::new(),
        }
    }
}

impl EventMessage {
    /// Checks that the event is not too long and that every reader can decode it.
    ///
    /// # Errors
    /// `Invalid` if the check fails.
    pub(super) fn check(&self) -> Result<()> {
        let fits = |bytes: usize, most: usize, what: &str| {
            let text = || format!("an event has {what} of {bytes} bytes; at most {most} fit");
            (bytes <= most).then_some(()).ok_or_else(|| Error::invalid(text()))
        };
        fits(self.text.len(), MAX_EVENT_TEXT_BYTES, "a text")?;
        fits(self.append_id.len(), MAX_APPEND_ID_BYTES, "an id")?;
        if self.fields.len() > MAX_EVENT_FIELDS {
            let text = format!("an event has too many fields: {}", self.fields.len());
            return Err(Error::invalid(text).hint(format!("use at most {MAX_EVENT_FIELDS}")));
        }
        for (name, value) in &self.fields {
            fits(name.len().max(value.len()), MAX_EVENT_FIELD_BYTES, "a field")?;
        }
        Event::try_from(self.clone()).map(drop)
    }

    /// Converts a stored message into an event. If a message is malformed, returns an event that
    /// says so: an error here would make all other events unreadable. Earlier builds of nacre could
    /// append malformed messages.
    pub(super) fn read(self) -> Event {
        let (sequence, at_micros) = (self.sequence, self.at_micros);
        Event::try_from(self).unwrap_or_else(|error| {
            let text = format!("an event that cannot be read: {error}");
            Event { sequence, at_micros, ..Event::new(Severity::Warning, text) }
        })
    }
}

impl TryFrom<EventMessage> for Event {
    type Error = Error;

    fn try_from(message: EventMessage) -> Result<Self> {
        let severity = match message.severity() {
            SeverityMessage::Info => Severity::Info,
            SeverityMessage::Warning => Severity::Warning,
            SeverityMessage::Error => Severity::Error,
        };
        let node = Some(message.node).filter(|node| !node.is_empty());
        Ok(Self {
            sequence: message.sequence,
            at_micros: message.at_micros,
            severity,
            node: node.map(NodeName::new).transpose()?,
            program: message.program.map(ProgramSite::try_from).transpose()?,
            text: message.text,
            fields: message.fields,
        })
    }
}

impl TryFrom<ProgramMessage> for ProgramSite {
    type Error = Error;

    fn try_from(message: ProgramMessage) -> Result<Self> {
        Ok(Self {
            kind: message.kind.parse::<ProgramKind>()?,
            name: ProgramName::new(&message.name)?,
            version: message.version,
            line: message.line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_decoded_is_returned_as_an_event_that_says_so() {
        let unreadable = EventMessage {
            sequence: 7,
            at_micros: 9,
            node: "no name".into(),
            ..EventMessage::default()
        };
        let event = unreadable.read();
        assert_eq!((event.sequence, event.at_micros, event.node), (7, 9, None));
        assert!(event.text.starts_with("an event that cannot be read: "), "{}", event.text);
    }
}
