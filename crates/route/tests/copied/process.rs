//! The process of the home: what is lost when it crashes.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{ObjectId, ObjectStat};
use nacre_route::{Copies, CopySettings, CopyTag, Making, Term};

use super::Sabotage;
use super::world::Question;

/// Why the switch has asked its engine.
pub enum Waiting {
    Read(Question),
    Change(Question),
    Make(usize),
}

/// A copy in the making.
pub struct MakingCopy {
    pub making: Making,
    pub object: usize,
    pub stat: Option<ObjectStat>,
    pub block: u64,
    pub is_at_end: bool,
}

/// A question of the switch to a target with copies.
pub enum Asked {
    Piece(usize),
    Read { question: Question, copy_node: usize, tag: CopyTag },
}

/// The process of the home: all of it is lost in a crash.
pub struct Process {
    pub number: u64,
    pub copies: Copies,
    pub waiting: BTreeMap<u64, Waiting>,
    pub makings: BTreeMap<usize, MakingCopy>,
    pub asked: BTreeMap<u64, Asked>,
}

pub fn object_id(object: usize) -> ObjectId {
    format!("data/o{object}").parse().unwrap()
}

pub fn process(number: u64, sabotage: Option<Sabotage>) -> Process {
    let (quiet, rest) = (Duration::from_millis(8), Duration::from_millis(15));
    let settings = CopySettings { quiet, reads: 2, rest };
    let mut copies = Copies::new("s.0".parse().unwrap(), settings);
    let term = if sabotage == Some(Sabotage::TagsReused) { 1 } else { number };
    copies.rules_changed(Term(term), |_| true);
    Process {
        number,
        copies,
        waiting: BTreeMap::new(),
        makings: BTreeMap::new(),
        asked: BTreeMap::new(),
    }
}
