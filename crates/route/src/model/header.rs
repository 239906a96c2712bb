//! The header of a rule.

use std::fmt;

use nacre_object::{Error, Result, TargetName};

use super::{Io, ObjectMatch, Operations, SourceMatch, Span, text};

/// The IO that a rule matches (`IOHeader` in the sRoute paper, figure 3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Header {
    /// The sources of the IO.
    pub source: SourceMatch,
    /// The operations.
    pub operations: Operations,
    /// The objects.
    pub object: ObjectMatch,
    /// The range of bytes that the header matches. [`Span::WHOLE`] also matches IO without bytes,
    /// such as reading an attribute.
    pub span: Span,
    /// The header matches only IO on objects that this target holds; `None` for all targets. It is
    /// used where one switch is in front of several targets, as on a gateway to Ceph. The text form
    /// of a header leaves it out.
    pub home: Option<TargetName>,
}

impl Header {
    /// Whether this header matches some byte of an IO, or an IO that touches no bytes.
    pub fn matches(&self, io: &Io) -> bool {
        self.operations.contains(io.operation)
            && self.source.matches(io)
            && self.object.matches(&io.object)
            && (self.home.is_none() || self.home == io.home)
            && match io.span {
                Some(span) => self.span.overlaps(span),
                None => self.span == Span::WHOLE,
            }
    }

    /// Whether this header matches every IO that the other header matches.
    pub fn covers(&self, other: &Self) -> bool {
        let is_within = match &other.object {
            ObjectMatch::Exact(object) => self.object.matches(object),
            others => self.object == *others,
        };
        is_within
            && self.source.covers(&other.source)
            && other.operations.iter().all(|operation| self.operations.contains(operation))
            && self.span.covers(other.span)
            && (self.home.is_none() || self.home == other.home)
    }

    /// Parses a line that is a header.
    ///
    /// # Errors
    /// As [`Header::parse`].
    pub fn from_line(line: &str) -> Result<Self> {
        Self::parse(&text::words(line))
    }

    /// Parses the words `SOURCE OPERATIONS OBJECT [RANGE]`.
    ///
    /// # Errors
    /// `Invalid` if a word is missing, superfluous or wrong.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let (source, operations, object, span) = match words {
            [source, operations, object] => (source, operations, object, Span::WHOLE),
            [source, operations, object, span] => (source, operations, object, Span::parse(span)?),
            _ => {
                return Err(Error::invalid(format!(
                    "a header has 3 or 4 words, not {}",
                    words.len()
                ))
                .hint("write SOURCE OPERATIONS OBJECT [RANGE], as in: * rw data/vm1 0..512KiB"));
            }
        };
        Ok(Self {
            source: SourceMatch::parse(source)?,
            operations: Operations::parse(operations)?,
            object: ObjectMatch::parse(object)?,
            span,
            home: None,
        })
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.source, self.operations, self.object)?;
        match self.span {
            Span::WHOLE => Ok(()),
            span => write!(f, " {span}"),
        }
    }
}
