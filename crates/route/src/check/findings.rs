//! What the analysis says.

use std::fmt;

use super::Way;
use crate::model::{ApplicationName, Io, SwitchName};

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// IO goes round in a loop.
    Loop,
    /// IO goes to a pool, target or layer that is not there.
    BlackHole {
        /// What is missing.
        missing: String,
    },
    /// No IO meets a rule: others before it take everything.
    Shadowed {
        /// The switch.
        switch: SwitchName,
        /// The rule.
        rule: String,
    },
    /// A read may not see what a write has written.
    MissedWrite,
    /// Two applications want the same IO to go different ways.
    Contradiction {
        /// The switch.
        switch: SwitchName,
        /// One of them, whose rule decides.
        first: ApplicationName,
        /// Its rule.
        rule: String,
        /// The other.
        second: ApplicationName,
        /// Its rule.
        other: String,
    },
    /// A source would reach by a route what no grant gives it.
    GrantCircumvented,
    /// The rules are too many or too entangled to be looked at completely.
    Incomplete,
}

/// Something that is wrong, with an IO that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// An IO that shows it; of two, the read.
    pub io: Option<Io>,
    /// The way of that IO.
    pub way: Option<Way>,
    /// The write that a read may miss, with its way.
    pub missed: Option<(Io, Way)>,
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// At most [`crate::limits::MAX_FINDINGS_OF_A_KIND`] of a kind.
    pub findings: Vec<Finding>,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loop => f.write_str("a loop"),
            Self::BlackHole { missing } => write!(f, "a black hole: there is no {missing}"),
            Self::Shadowed { switch, rule } => {
                write!(f, "a shadowed rule: no IO at {switch} meets \"{rule}\"")
            }
            Self::MissedWrite => f.write_str("a read that can miss a routed write"),
            Self::Contradiction { switch, first, rule, second, other } => write!(
                f,
                "two applications that contradict each other at {switch}: {first} has \"{rule}\", {second} has \"{other}\""
            ),
            Self::GrantCircumvented => f.write_str("a grant that is circumvented"),
            Self::Incomplete => f.write_str("the rules are too many to be checked completely"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let (Some(io), Some(way)) = (&self.io, &self.way) {
            write!(f, "\n  {io}\n    {way}")?;
        }
        if let Some((io, way)) = &self.missed {
            write!(f, "\n  misses {io}\n    {way}")?;
        }
        Ok(())
    }
}
