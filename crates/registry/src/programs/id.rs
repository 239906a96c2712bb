//! Which program: its kind and name.

use std::fmt;
use std::str::FromStr;

use nacre_object::{Error, ProgramName, Result};

use super::ProgramKind;

/// A program: a name within its kind. Written `kind/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProgramId {
    /// The hook it fills.
    pub kind: ProgramKind,
    /// Its name.
    pub name: ProgramName,
}

impl ProgramId {
    /// The program `name` of `kind`.
    pub fn new(kind: ProgramKind, name: ProgramName) -> Self {
        Self { kind, name }
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl FromStr for ProgramId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, name) = text.split_once('/').ok_or_else(|| {
            Error::invalid(format!("{text:?} does not name a program")).hint("write KIND/NAME")
        })?;
        Ok(Self::new(kind.parse()?, name.parse()?))
    }
}
