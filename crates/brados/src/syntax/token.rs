//! The words of the language.

use std::fmt;

use crate::span::Span;

/// Words with a meaning of their own; an editor's grammar is kept in step with this list.
pub const KEYWORDS: [&str; 19] = [
    "state",
    "do",
    "end",
    "bloom",
    "temp",
    "table",
    "scratch",
    "channel",
    "interface",
    "input",
    "output",
    "if",
    "unless",
    "and",
    "or",
    "not",
    "true",
    "false",
    "nil",
];

/// How a rule's rows get into its collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MergeOp {
    /// `<=`: now.
    Now,
    /// `<+`: at the end of the request.
    Insert,
    /// `<-`: deletes rows at the end of the request.
    Delete,
    /// `<+-` or `<+>`: replaces the row with the same key at the end of the request.
    Replace,
    /// `<~`: sent after the request.
    Send,
}

impl MergeOp {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "<=",
            Self::Insert => "<+",
            Self::Delete => "<-",
            Self::Replace => "<+-",
            Self::Send => "<~",
        }
    }
}

impl fmt::Display for MergeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    /// A name or a keyword.
    Word,
    /// A whole number.
    Integer(i64),
    /// A quoted string with its escapes resolved.
    Text(Vec<u8>),
    /// `<=`, which in an expression compares, and the other ways to merge.
    Merge(MergeOp),
    /// Any other punctuation.
    Punctuation(&'static str),
    /// The end of a line.
    Newline,
    /// From `#` to the end of the line. Only the formatter is given these.
    Comment,
    /// The end of the source.
    End,
}

/// A word of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it is.
    pub span: Span,
}

impl Token {
    pub(crate) fn is(&self, punctuation: &str) -> bool {
        matches!(&self.kind, TokenKind::Punctuation(own) if *own == punctuation)
    }
}
