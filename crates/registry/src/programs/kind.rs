//! Which hook a program fills.

use std::fmt;
use std::str::FromStr;

use nacre_object::{Error, Result};

/// The kind of a program: the hook that the program is for. Programs of different kinds may have
/// the same name. [`super::Programs`] refuses kinds without a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProgramKind {
    /// Methods of objects.
    Class,
    /// Decides about the commits of the map of the same name.
    Map,
    /// State, methods and capability policy of shared resources.
    FileType,
    /// Decides who may cache a shared resource, and for how long.
    Capability,
    /// Where metadata load goes.
    Balancer,
    /// Which path IO takes.
    Route,
    /// Which rules a route application has.
    Control,
    /// What happens to IO that a rule sends through a stage.
    Waypoint,
    /// Decides whose request is next.
    Slo,
}

impl ProgramKind {
    /// Every kind.
    pub const ALL: [ProgramKind; 9] = [
        Self::Class,
        Self::Map,
        Self::FileType,
        Self::Capability,
        Self::Balancer,
        Self::Route,
        Self::Control,
        Self::Waypoint,
        Self::Slo,
    ];

    /// The kind's name, as it is written and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Map => "map",
            Self::FileType => "filetype",
            Self::Capability => "capability",
            Self::Balancer => "balancer",
            Self::Route => "route",
            Self::Control => "control",
            Self::Waypoint => "waypoint",
            Self::Slo => "slo",
        }
    }
}

impl fmt::Display for ProgramKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ProgramKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|kind| kind.as_str()).collect();
            Error::invalid(format!("{text:?} is not a kind of program"))
                .hint(format!("use one of {}", known.join(", ")))
        })
    }
}
