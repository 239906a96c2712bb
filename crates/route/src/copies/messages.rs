//! What the state machine of copies and its runtime tell each other.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{ObjectId, ObjectStat, TargetName};

use super::head::{CopyState, CopyTag};
use crate::limits::MIN_TARGET_REST;

/// When copies are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySettings {
    /// An object is copied only if it has not changed for this time.
    pub quiet: Duration,
    /// An object is copied only after so many reads since its last change.
    pub reads: u32,
    /// How long a target gets no reads of copies after its first failure. Each further failure
    /// doubles the time, up to [`MAX_TARGET_REST`](crate::limits::MAX_TARGET_REST).
    pub rest: Duration,
}

impl Default for CopySettings {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(1), reads: 3, rest: MIN_TARGET_REST }
    }
}

/// Where a read goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFrom {
    /// To the object itself.
    Home,
    /// To a current copy.
    Copy {
        /// The target that has it.
        target: TargetName,
        /// The copy, and the state that it has.
        state: CopyState,
        /// What `stat` answers about the object.
        stat: ObjectStat,
        /// The object that stores the copy.
        stored_in: ObjectId,
    },
}

/// A copy that the runtime has to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// The object.
    pub object: ObjectId,
    /// Where.
    pub target: TargetName,
    /// The copy.
    pub tag: CopyTag,
}

/// What the runtime does with a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRead {
    /// Where it goes.
    pub from: ReadFrom,
    /// The copies to make.
    pub make: Vec<Making>,
}

/// A copy that the runtime has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCopy {
    /// The `stat` of its object at the home.
    pub stat: ObjectStat,
    /// How many writes the copy has applied.
    pub applied: u64,
    /// The object that stores the copy.
    pub stored_in: ObjectId,
}

/// Why a copy was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MakeFailure {
    /// The object is too large.
    TooLarge,
    /// The object changed meanwhile, or cannot be read at its home.
    Changed,
    /// The target did not answer, or cannot store the copy.
    Target,
}

/// Why a read of a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// The target does not have the copy any more.
    Lost,
    /// The copy is at another target now.
    Moved,
    /// The target did not answer, or cannot read.
    Target,
}

/// A copy that nobody needs, at a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyToDrop {
    /// The object of which it is a copy.
    pub object: ObjectId,
    /// Where.
    pub target: TargetName,
    /// The copy. Later copies stay.
    pub tag: CopyTag,
    /// The object that stores the copy, if it is known.
    pub stored_in: Option<ObjectId>,
}

/// The copies at present, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopySummary {
    /// How many are current.
    pub current: usize,
    /// How many are being made.
    pub in_the_making: usize,
    /// The bytes of the current ones.
    pub bytes: u64,
    /// How many copies became current since the start.
    pub made: u64,
    /// How many copies could not be made since the start.
    pub failed: u64,
    /// How many updates copies have applied since the start.
    pub updates: u64,
    /// How many updates copies did not confirm since the start.
    pub updates_failed: u64,
    /// How many reads each target has served since the start.
    pub served: BTreeMap<TargetName, u64>,
}
