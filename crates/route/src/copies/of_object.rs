//! `OfObject`: the copies of one object.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{ObjectStat, TargetName};

use super::head::CopyTag;

/// A copy at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Copy {
    /// The runtime makes it.
    Making(CopyTag),
    /// It has the bytes that the object has at its home.
    Current(CopyTag, ObjectStat),
}

impl Copy {
    pub fn tag(&self) -> CopyTag {
        match self {
            Self::Making(tag) | Self::Current(tag, _) => *tag,
        }
    }

    pub fn current_bytes(&self) -> u64 {
        match self {
            Self::Making(_) => 0,
            Self::Current(_, stat) => stat.size,
        }
    }
}

/// The copies of one object, and what decides whether more are made.
#[derive(Debug)]
pub(super) struct OfObject {
    pub copies: BTreeMap<TargetName, Copy>,
    /// Reads since the last change.
    pub reads: u32,
    /// When it was last read.
    pub read_at: Duration,
    /// When its last change ended; `None` if none has ended since the switch knows the object.
    pub changed_at: Option<Duration>,
    /// It is too large to be copied, as long as it does not change.
    pub is_too_large: bool,
}

impl OfObject {
    pub fn new(now: Duration) -> Self {
        Self {
            copies: BTreeMap::new(),
            reads: 0,
            read_at: now,
            changed_at: None,
            is_too_large: false,
        }
    }

    /// Whether it was read often enough, and has not changed for `quiet`.
    pub fn is_worth_a_copy(&self, now: Duration, quiet: Duration, reads: u32) -> bool {
        let is_quiet = self.changed_at.is_none_or(|at| now.saturating_sub(at) >= quiet);
        is_quiet && self.reads >= reads && !self.is_too_large
    }

    pub fn is_being_copied(&self) -> bool {
        self.copies.values().any(|copy| matches!(copy, Copy::Making(_)))
    }
}
