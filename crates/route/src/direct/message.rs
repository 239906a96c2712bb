//! The messages about direct reads.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::{Error, ObjectId, Result};
use serde::{Deserialize, Serialize};

use crate::model::{ApplicationName, Destination, Header, Options, Rule, SourceMatch, Span};

/// Which bytes the rules of a switch that allow direct reads are about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectRules {
    /// For each rule the text of a rule about the same objects and bytes. It has neither the source
    /// nor the destination, which are no business of the client's.
    pub rules: Vec<String>,
}

impl DirectRules {
    /// Adds a rule that allows direct reads.
    pub fn add(&mut self, rule: &Rule) {
        let header = Header { source: SourceMatch::Any, home: None, ..rule.header.clone() };
        let (destination, options) = (Destination::Home, Options::default());
        let told = Rule { header, destination, options, application: rule.application.clone() };
        self.rules.push(told.to_string());
    }

    /// The rules. Leaves out those that this release does not know.
    pub(super) fn parsed(&self) -> Vec<Rule> {
        let Ok(application) = ApplicationName::new("home") else { return vec![] };
        let parse = |text: &String| Rule::from_line(&application, text).ok();
        self.rules.iter().filter_map(parse).collect()
    }
}

/// A client's question where some bytes of an object are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhereAsk {
    /// The object.
    pub object: String,
    /// The first byte.
    pub offset: u64,
}

/// The answer to a [`WhereAsk`]: a client with the token may read these bytes at this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The node that keeps the bytes.
    pub node: String,
    /// The object that keeps the bytes there.
    pub kept_in: String,
    /// Start and end of each span, in order.
    pub spans: Vec<(u64, u64)>,
    /// The version of the object at its home.
    pub version: u64,
    /// Shows the node that the home has told the client this permit.
    pub token: u64,
}

/// A home's order to a node: until the lease ends, serve direct reads of these bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitAsk {
    /// The target of the home.
    pub home_target: String,
    /// The term of the home's rules.
    pub term: u64,
    /// The object whose bytes they are.
    pub object: String,
    /// As in [`Permit`].
    pub kept_in: String,
    /// As in [`Permit`].
    pub spans: Vec<(u64, u64)>,
    /// As in [`Permit`].
    pub token: u64,
}

impl Permit {
    /// Whether the permit covers all bytes of a range.
    pub fn covers(&self, span: Span) -> bool {
        covers(&self.spans, span)
    }
}

/// Whether adjacent spans, sorted by their first byte, cover all bytes of `span`.
pub(crate) fn covers(spans: &[(u64, u64)], span: Span) -> bool {
    let mut at = span.start();
    for (start, end) in spans {
        if *start <= at && at < *end {
            at = *end;
        }
    }
    at >= span.end()
}

/// A client's read of bytes at the node that keeps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectRead {
    /// The token of the permit.
    pub token: u64,
    /// The bytes.
    pub span: Span,
    /// The object whose bytes they are.
    pub object: ObjectId,
    /// The object that keeps the bytes.
    pub kept_in: ObjectId,
}

impl DirectRead {
    /// Encodes the read: token, first byte and end, each in 8 bytes in big-endian order; then both
    /// objects, each after its length in 4 bytes.
    pub fn encode(&self) -> Bytes {
        let objects = [&self.object, &self.kept_in].map(ToString::to_string);
        let mut out = BytesMut::with_capacity(32 + objects[0].len() + objects[1].len());
        [self.token, self.span.start(), self.span.end()].iter().for_each(|n| out.put_u64(*n));
        for object in &objects {
            out.put_u32(object.len() as u32);
            out.put_slice(object.as_bytes());
        }
        out.freeze()
    }

    /// Decodes a read.
    ///
    /// # Errors
    /// `Invalid` if the input is malformed.
    pub fn decode(mut input: Bytes) -> Result<Self> {
        let malformed = || Error::invalid("the input of a direct read is malformed");
        let mut number = || input.try_get_u64().map_err(|_| malformed());
        let (token, start, end) = (number()?, number()?, number()?);
        let span = Span::new(start, end).ok_or_else(malformed)?;
        let mut object = || -> Result<ObjectId> {
            let length = input.try_get_u32().map_err(|_| malformed())? as usize;
            if length > input.remaining() {
                return Err(malformed());
            }
            let text = input.split_to(length);
            std::str::from_utf8(&text).map_err(|_| malformed())?.parse()
        };
        Ok(Self { token, span, object: object()?, kept_in: object()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end).unwrap()
    }

    #[test]
    fn a_read_survives_encoding_and_every_shortened_input_is_refused() {
        let read = DirectRead {
            token: 7,
            span: span(3, 9),
            object: "data/x".parse().unwrap(),
            kept_in: "nacre.routed/{1}data/x".parse().unwrap(),
        };
        let encoded = read.encode();
        assert_eq!(DirectRead::decode(encoded.clone()).unwrap(), read);
        for length in 0..encoded.len() {
            assert!(DirectRead::decode(encoded.slice(..length)).is_err(), "{length}");
        }
    }

    #[test]
    fn clients_learn_objects_and_bytes_of_a_rule_but_neither_source_nor_destination() {
        let application = "tail".parse().unwrap();
        let line = "tenant:gold w data/a* 0..4KiB -> target storage.1 follow direct-reads";
        let mut rules = DirectRules::default();
        rules.add(&Rule::from_line(&application, line).unwrap());
        assert_eq!(rules.rules, ["* w data/a* 0..4KiB -> home"]);
        assert_eq!(rules.parsed().len(), 1);
    }

    #[test]
    fn spans_cover_a_range_only_without_a_gap() {
        let spans = [(0, 4), (4, 8), (10, 12)];
        assert!(covers(&spans, span(0, 8)) && covers(&spans, span(5, 6)));
        assert!(covers(&spans, span(10, 12)));
        assert!(!covers(&spans, span(6, 11)) && !covers(&spans, span(8, 9)));
        assert!(!covers(&[], span(0, 1)));
    }
}
