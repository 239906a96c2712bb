//! The problems that the analysis reports.

use std::fmt;

use nacre_object::{TargetName, TenantName};

use super::Way;
use crate::model::{ApplicationName, Io, SwitchName};

/// A kind of problem in rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// IO goes round in a loop.
    Loop,
    /// IO goes to a pool, target or layer that is not there.
    BlackHole {
        /// What is missing.
        missing: String,
    },
    /// No IO reaches a rule, because earlier rules match all of it.
    Shadowed {
        /// The switch.
        switch: SwitchName,
        /// The rule.
        rule: String,
    },
    /// A read may not see what a write has written.
    MissedWrite,
    /// A read does not pass the same re-encoding waypoints as the write of its bytes.
    EncodedOtherwise,
    /// Two applications want the same IO to go different ways.
    Contradiction {
        /// The switch.
        switch: SwitchName,
        /// The application whose rule decides.
        first: ApplicationName,
        /// Its rule.
        rule: String,
        /// The other application.
        second: ApplicationName,
        /// Its rule.
        other: String,
    },
    /// A route lets a source reach an object to which it has no grant.
    GrantCircumvented,
    /// A rule sends IO of a tenant with a promised latency to a target for which its traffic was
    /// not admitted.
    PromiseLeft {
        /// The tenant.
        tenant: TenantName,
        /// The target.
        target: TargetName,
    },
    /// A rule sends IO of a tenant with a promised latency from one target to another, over a link
    /// of known speed. The promise counts no such IO.
    UncountedLink {
        /// The tenant.
        tenant: TenantName,
        /// The target.
        target: TargetName,
    },
    /// The rules are too many or too complex to analyse completely.
    Incomplete,
}

/// A problem, with an IO that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The kind of problem.
    pub kind: FindingKind,
    /// An IO that shows the problem; for a missed write, the read.
    pub io: Option<Io>,
    /// The path of that IO.
    pub way: Option<Way>,
    /// The write that the read may miss, with its path.
    pub missed: Option<(Io, Way)>,
}

/// The result of the analysis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// The problems, at most [`crate::limits::MAX_FINDINGS_OF_A_KIND`] of each kind.
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
            Self::EncodedOtherwise => {
                f.write_str("a read that gets bytes in another encoding than they were written in")
            }
            Self::Contradiction { switch, first, rule, second, other } => write!(
                f,
                "two applications that contradict each other at {switch}: {first} has \"{rule}\", {second} has \"{other}\""
            ),
            Self::PromiseLeft { tenant, target } => write!(
                f,
                "a promise that does not hold: the traffic of {tenant} was not admitted at {target}"
            ),
            Self::UncountedLink { tenant, target } => write!(
                f,
                "a link that a promise does not count: IO of {tenant} to {target} passes another target first"
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
