//! A mistake in a source, and its position.

use std::fmt;

use nacre_object::{Error, FaultSite};
use nacre_program::excerpt;

use crate::programs::ProgramId;

/// A mistake in a source, and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceError {
    /// The line, 1-based, where known.
    pub line: Option<u32>,
    /// The column in characters, 1-based, where certain.
    pub column: Option<u32>,
    /// The mistake.
    pub message: String,
}

impl SourceError {
    /// A mistake of the source as a whole, without a line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { line: None, column: None, message: message.into() }
    }

    /// The source line with a caret under the mistake, for a terminal. Empty if the line is not
    /// known.
    pub fn excerpt(&self, source: &str) -> String {
        self.line.map_or_else(String::new, |line| excerpt(source.as_bytes(), line, self.column))
    }

    /// The public error: `Invalid`, with program and line as its fault site.
    pub fn into_error(self, program: &ProgramId) -> Error {
        let site =
            FaultSite { program: program.to_string(), line: self.line, ..FaultSite::default() };
        Error::invalid(self.message).with_fault(site)
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}")?;
            if let Some(column) = self.column {
                write!(f, ", column {column}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.message)
    }
}

/// A mistake that a dry run found.
impl From<Error> for SourceError {
    fn from(error: Error) -> Self {
        let line = error.fault().and_then(|site| site.line);
        Self { line, column: None, message: error.message().to_owned() }
    }
}
