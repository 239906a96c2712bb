//! `ObjectMatch`: the objects that a rule matches.

use std::fmt;

use nacre_object::{Error, ObjectId, Result};

use super::text;
use crate::limits::MAX_OBJECT_MATCH_BYTES;

/// A set of objects, described by their strings `POOL/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectMatch {
    /// This object.
    Exact(ObjectId),
    /// Every object whose string begins like this. The empty prefix matches all objects.
    Prefix(String),
    /// Every object whose string matches the pattern.
    Pattern(Pattern),
}

/// A pattern: literal pieces with any characters between them. At least one `*` is not at the end
/// of the pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    /// The literal strings before, between and after the stars. There are at least two; the first
    /// and the last may be empty.
    pieces: Vec<String>,
}

impl Pattern {
    /// The beginning of every string that matches.
    pub fn literal_prefix(&self) -> &str {
        &self.pieces[0]
    }

    /// The literal strings before, between and after the stars.
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// Whether a string matches.
    pub fn matches(&self, text: &str) -> bool {
        let (first, rest) = (&self.pieces[0], &self.pieces[1..]);
        let Some((last, middle)) = rest.split_last() else { return text == first };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            // The earliest match leaves the most characters for the pieces after it.
            let Some(at) = rest.find(piece.as_str()) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

/// The string `POOL/NAME` of an object.
pub fn text_of(object: &ObjectId) -> String {
    // `to_string` would grow the string in steps.
    [object.pool.as_str(), "/", object.name.as_str()].concat()
}

impl ObjectMatch {
    /// Every object, written `*`.
    pub fn all() -> Self {
        Self::Prefix(String::new())
    }

    /// Whether it matches this object.
    pub fn matches(&self, object: &ObjectId) -> bool {
        match self {
            Self::Exact(id) => id == object,
            other => other.matches_text(&text_of(object)),
        }
    }

    /// Like [`ObjectMatch::matches`], for the string `POOL/NAME`.
    pub fn matches_text(&self, text: &str) -> bool {
        match self {
            Self::Exact(id) => {
                let rest = text.strip_prefix(id.pool.as_str()).and_then(|r| r.strip_prefix('/'));
                rest == Some(id.name.as_str())
            }
            Self::Prefix(prefix) => text.starts_with(prefix.as_str()),
            Self::Pattern(pattern) => pattern.matches(text),
        }
    }

    /// The key by which the rules of one insertion are sorted: the length of the literal prefix. An
    /// exact name precedes a prefix of the same length.
    pub fn specificity(&self) -> (usize, bool) {
        match self {
            Self::Exact(id) => (id.pool.as_str().len() + 1 + id.name.as_str().len(), true),
            Self::Prefix(prefix) => (prefix.len(), false),
            Self::Pattern(pattern) => (pattern.literal_prefix().len(), false),
        }
    }

    /// Parses a name, a prefix that ends with `*`, or a pattern with `*` elsewhere. A backslash
    /// makes a following `*`, `\`, space, `#` or `"` literal.
    ///
    /// # Errors
    /// `Invalid` if the string is too long, or if it has no star and is no valid object name.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > 2 * MAX_OBJECT_MATCH_BYTES {
            return Err(Error::invalid("the object of a rule is too long")
                .hint(format!("use {MAX_OBJECT_MATCH_BYTES} bytes at most")));
        }
        let mut pieces = text::split_at_stars(text)?;
        let length: usize = pieces.iter().map(String::len).sum();
        if length > MAX_OBJECT_MATCH_BYTES {
            return Err(Error::invalid(format!("the object of a rule has {length} bytes"))
                .hint(format!("use {MAX_OBJECT_MATCH_BYTES} at most")));
        }
        match pieces.as_slice() {
            [name] => Ok(Self::Exact(name.parse()?)),
            [_, end] if end.is_empty() => Ok(Self::Prefix(pieces.swap_remove(0))),
            _ => {
                let last = pieces.len() - 1;
                let mut at = 0;
                // Adjacent stars count as one.
                pieces.retain(|piece| {
                    at += 1;
                    at == 1 || at - 1 == last || !piece.is_empty()
                });
                match pieces.as_slice() {
                    [_, end] if end.is_empty() => Ok(Self::Prefix(pieces.swap_remove(0))),
                    _ => Ok(Self::Pattern(Pattern { pieces })),
                }
            }
        }
    }
}

impl fmt::Display for ObjectMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(id) => f.write_str(&text::escape(&id.to_string())),
            Self::Prefix(prefix) => write!(f, "{}*", text::escape(prefix)),
            Self::Pattern(pattern) => {
                let pieces: Vec<_> = pattern.pieces.iter().map(|p| text::escape(p)).collect();
                f.write_str(&pieces.join("*"))
            }
        }
    }
}
