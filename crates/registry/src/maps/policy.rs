//! The input and output of a map program: the proposed commit and the program's verdict, as data.
//! The hook of map programs runs the program.

#![cfg_attr(
    not(feature = "programs"),
    expect(dead_code, reason = "only the VM reads what a program is asked")
)]

use nacre_object::{CallContext, Error, FaultSite, MapName};

use super::Change;

/// A program bound to a map.
pub(crate) struct Policy<'a> {
    pub map: &'a str,
    pub version: u64,
    pub source: &'a [u8],
}

/// A commit to be judged.
pub(crate) struct Proposal<'a> {
    pub epoch: u64,
    pub changes: Vec<Change>,
    pub chain: &'a [String],
    pub context: &'a CallContext,
}

/// The changes to commit, and the commits to other maps that they trigger.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub changes: Vec<Change>,
    pub triggers: Vec<(MapName, Vec<Change>)>,
}

impl Policy<'_> {
    /// The name of the program.
    pub fn program(&self) -> String {
        format!("map/{}", self.map)
    }

    /// Adds to an error of a check that the program made what failed.
    pub fn blame(&self, error: Error) -> Error {
        let (program, version) = (self.program(), self.version);
        error.with_fault(FaultSite { program, version, ..FaultSite::default() })
    }
}
