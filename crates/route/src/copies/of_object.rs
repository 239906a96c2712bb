//! `OfObject`: the copies of one object.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{ObjectId, ObjectStat, TargetName};

use super::head::{CopyState, CopyTag};
use super::missed::Missed;

/// A copy at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Copy {
    /// The runtime makes it. Meanwhile updates have changed these bytes.
    Making(CopyTag, Missed),
    /// It has the bytes that the object has at its home.
    Current(CurrentCopy),
    /// Updates are on their way to it, so it is not in the read set.
    Updating(UpdatingCopy),
}

/// A copy in the read set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CurrentCopy {
    pub state: CopyState,
    /// What `stat` answers about the copied object.
    pub stat: ObjectStat,
    /// The object that stores the copy.
    pub stored_in: ObjectId,
}

/// A copy to which updates are on their way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UpdatingCopy {
    pub tag: CopyTag,
    /// The object that stores the copy.
    pub stored_in: ObjectId,
    /// How many writes the switch has ordered for it, since it was made.
    pub sent: u64,
    /// How many of them it has confirmed.
    pub confirmed: u64,
    /// Its size after all of them.
    pub size: u64,
    /// Its size when it was current. It counts among the bytes of current copies.
    pub counted: u64,
    /// Whether it was current when the update in flight began. The end of the update may have to
    /// wait for it.
    pub is_awaited: bool,
}

impl UpdatingCopy {
    pub fn has_all(&self) -> bool {
        self.confirmed == self.sent
    }
}

impl Copy {
    pub fn tag(&self) -> CopyTag {
        match self {
            Self::Making(tag, _) => *tag,
            Self::Current(copy) => copy.state.tag,
            Self::Updating(copy) => copy.tag,
        }
    }

    /// The object that stores the copy. `None` while the copy is in the making.
    pub fn stored_in(&self) -> Option<ObjectId> {
        match self {
            Self::Making(..) => None,
            Self::Current(copy) => Some(copy.stored_in.clone()),
            Self::Updating(copy) => Some(copy.stored_in.clone()),
        }
    }

    /// The bytes that it adds to those of all current copies.
    pub fn counted_bytes(&self) -> u64 {
        match self {
            Self::Making(..) => 0,
            Self::Current(copy) => copy.stat.size,
            Self::Updating(copy) => copy.counted,
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
    /// Its `stat` after the last update, if nothing else has changed it since.
    pub updated: Option<ObjectStat>,
}

impl OfObject {
    pub fn new(now: Duration) -> Self {
        Self {
            copies: BTreeMap::new(),
            reads: 0,
            read_at: now,
            changed_at: None,
            is_too_large: false,
            updated: None,
        }
    }

    /// Whether it was read often enough, and has not changed for `quiet`.
    pub fn is_worth_a_copy(&self, now: Duration, quiet: Duration, reads: u32) -> bool {
        let is_quiet = self.changed_at.is_none_or(|at| now.saturating_sub(at) >= quiet);
        is_quiet && self.reads >= reads && !self.is_too_large
    }

    pub fn is_being_copied(&self) -> bool {
        self.copies.values().any(|copy| matches!(copy, Copy::Making(..)))
    }
}
