//! A span: one step of traced work, with its start and end.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Id;

/// The most bytes of a string in a field; a longer string is cut. Names of objects may be longer,
/// but a span must stay small.
const MAX_TEXT_BYTES: usize = 128;
/// The most fields of a span. Further details belong into another span.
const MAX_FIELDS: usize = 8;

/// A finished step of traced work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The trace it belongs to.
    pub trace_id: Id,
    /// Its own number.
    pub span_id: Id,
    /// The enclosing span; none for the first span of a trace.
    pub parent: Id,
    /// The name of the step.
    pub name: Cow<'static, str>,
    /// When it began: microseconds since 1970, UTC.
    pub start_micros: u64,
    /// How long it took, in microseconds.
    pub duration_micros: u64,
    /// Further details.
    pub fields: Fields,
}

impl Span {
    /// When it ended: microseconds since 1970, UTC.
    pub fn end_micros(&self) -> u64 {
        self.start_micros.saturating_add(self.duration_micros)
    }
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count, or bytes.
    Number(u64),
    /// A string, cut to `MAX_TEXT_BYTES`.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self::Text(text[..end].to_owned())
    }
}

/// Names with values, in the order in which they were added. At most `MAX_FIELDS`; later fields are
/// dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fields(Vec<(Cow<'static, str>, Value)>);

impl Fields {
    /// Adds a field.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.add(name, value);
        self
    }

    /// Adds one.
    pub fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        if self.0.len() < MAX_FIELDS {
            self.0.push((Cow::Borrowed(name), value.into()));
        }
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find_map(|(each, value)| (each == name).then_some(value))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_span_is_bounded() {
        let long = "ä".repeat(MAX_TEXT_BYTES);
        let fields = (0..20).fold(Fields::default(), |fields, _| fields.with("object", &*long));
        assert_eq!(fields.iter().count(), MAX_FIELDS);
        let Some(Value::Text(text)) = fields.get("object") else { panic!("no text") };
        assert_eq!(text.len(), MAX_TEXT_BYTES);
    }
}
