//! The process of the home: what is lost when it crashes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nacre_object::{ObjectId, ObjectStat, TargetName};
use nacre_route::{Copies, CopySettings, CopyState, CopyUpdate, Making, Span, Term};

use super::updating::Updating;
use super::world::Question;

/// Why the switch has asked its engine.
pub enum Waiting {
    Read(Question),
    Change(Question),
    /// The update in flight of this object.
    Update(usize),
    Make(usize),
}

/// A copy in the making.
pub struct MakingCopy {
    pub making: Making,
    pub object: usize,
    pub stat: Option<ObjectStat>,
    /// The bytes that are still to be copied.
    pub left: VecDeque<Span>,
    /// The writes that the copy has got.
    pub number: u64,
    /// The version that the object must have in the end.
    pub version: u64,
    pub is_at_end: bool,
    /// Whether updates wait for it.
    pub has_turn: bool,
}

/// A question of the switch to a target with copies.
pub enum Asked {
    Piece(usize),
    Update(CopyUpdate),
    Read { question: Question, copy_node: usize, state: CopyState },
}

/// The process of the home: all of it is lost in a crash.
pub struct Process {
    pub number: u64,
    pub copies: Copies,
    pub waiting: BTreeMap<u64, Waiting>,
    pub makings: BTreeMap<usize, MakingCopy>,
    pub asked: BTreeMap<u64, Asked>,
    pub updating: Updating,
}

pub fn object_id(object: usize) -> ObjectId {
    format!("data/o{object}").parse().unwrap()
}

/// The target that holds the objects.
pub fn home() -> TargetName {
    "s.0".parse().unwrap()
}

pub fn process(number: u64) -> Process {
    let (quiet, rest) = (Duration::from_millis(8), Duration::from_millis(15));
    let settings = CopySettings { quiet, reads: 2, rest };
    let mut copies = Copies::new(settings);
    copies.rules_changed(Term(number), |_| true);
    Process {
        number,
        copies,
        waiting: BTreeMap::new(),
        makings: BTreeMap::new(),
        asked: BTreeMap::new(),
        updating: Updating::default(),
    }
}
