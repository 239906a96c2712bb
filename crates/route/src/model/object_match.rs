//! Which objects a rule is about.

use std::fmt;

use nacre_object::{Error, ObjectId, Result};

use super::text;
use crate::limits::MAX_OBJECT_MATCH_BYTES;

/// Which objects, by the text `POOL/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectMatch {
    /// This object.
    Exact(ObjectId),
    /// Every object whose text begins so; the empty prefix stands for all objects.
    Prefix(String),
    /// Every object whose text fits the pattern.
    Pattern(Pattern),
}

/// A pattern: literal pieces with any text between them. It has a `*` before its end; otherwise it
/// would be a prefix or a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pattern {
    /// The literal pieces before, between and after the stars. There are at least two; the first
    /// and the last may be empty.
    pieces: Vec<String>,
}

impl Pattern {
    /// What every text that fits begins with.
    pub fn literal_prefix(&self) -> &str {
        &self.pieces[0]
    }

    /// What stands before, between and after the stars.
    pub fn pieces(&self) -> &[String] {
        &self.pieces
    }

    /// Whether a text fits.
    pub fn matches(&self, text: &str) -> bool {
        let (first, rest) = (&self.pieces[0], &self.pieces[1..]);
        let Some((last, middle)) = rest.split_last() else { return text == first };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
        for piece in middle {
            // The earliest place leaves most for the pieces after it.
            let Some(at) = rest.find(piece.as_str()) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }
}

impl ObjectMatch {
    /// Every object, written `*`.
    pub fn all() -> Self {
        Self::Prefix(String::new())
    }

    /// Whether a rule of it is about this object.
    pub fn matches(&self, object: &ObjectId) -> bool {
        match self {
            Self::Exact(id) => id == object,
            other => other.matches_text(&object.to_string()),
        }
    }

    /// As [`ObjectMatch::matches`], for the text `POOL/NAME`.
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

    /// The sort key of rules within one insertion: the length of the literal prefix; an exact name
    /// precedes a prefix of the same length.
    pub fn specificity(&self) -> (usize, bool) {
        match self {
            Self::Exact(id) => (id.pool.as_str().len() + 1 + id.name.as_str().len(), true),
            Self::Prefix(prefix) => (prefix.len(), false),
            Self::Pattern(pattern) => (pattern.literal_prefix().len(), false),
        }
    }

    /// Parses a name, a prefix that ends with `*`, or a pattern with `*` elsewhere. A backslash
    /// makes a following `*`, `\`, blank or quotation mark literal.
    ///
    /// # Errors
    /// `Invalid` if the text is too long, or has no star and is no valid object name.
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
                // Stars side by side are one.
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
