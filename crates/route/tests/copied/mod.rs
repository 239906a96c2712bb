//! A simulation in which clients read and change objects while their home copies them to other
//! targets. See [`World`].

mod copy_node;
mod home;
mod process;
mod updating;
mod world;

pub use world::World;

use bytes::Bytes;
use nacre_object::{ObjectStat, TargetName};
use nacre_route::{CopyState, CopyTag, CopyWrite};

pub const CLIENTS: usize = 4;
pub const OBJECTS: usize = 2;
/// Targets with copies.
pub const COPY_NODES: usize = 2;
/// An object has at most so many blocks.
pub const BLOCKS: u64 = 4;
/// A block holds the number of the change that wrote it.
pub const BLOCK_BYTES: u64 = 8;

/// Who sends and gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client(usize),
    /// The switch, in the process of the home.
    Switch,
    /// The engine in that process.
    Home,
    CopyNode(usize),
}

/// A change of an object.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    Write { block: u64, count: u64, value: u64 },
    Zero { block: u64, count: u64 },
    Truncate { blocks: u64 },
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A client reads a whole object.
    Read { object: usize },
    /// A client changes an object.
    Change { object: usize, change: Change },
    /// The switch asks its engine, which answers by a message of its own.
    ToHome { process: u64, number: u64, what: AtHome },
    /// The engine answers.
    FromHome { process: u64, number: u64, answer: HomeAnswer },
    /// The switch sends a piece of a copy, or an update.
    Piece(CopyWrite),
    /// The switch drops a copy.
    Drop { object: usize, tag: CopyTag },
    /// The switch reads a copy.
    ReadCopy { object: usize, state: CopyState },
    /// A timer of whoever gets it.
    Wake,
}

/// What the engine does.
#[derive(Debug, Clone, Copy)]
pub enum AtHome {
    Stat(usize),
    Read(usize),
    ReadBlock(usize, u64),
    Change(usize, Change),
}

/// What the engine answers: the object's version, with its bytes.
#[derive(Debug, Clone)]
pub struct HomeAnswer {
    pub version: u64,
    pub stat: ObjectStat,
    pub data: Bytes,
}

/// The answer to a question. If no answer comes, the asking party gets [`Answer::Silence`].
#[derive(Debug, Clone)]
pub enum Answer {
    Read(Bytes),
    Changed { version: u64 },
    Stored,
    Refused,
    Copied(Bytes),
    Lost,
    Silence,
}

/// Bugs that the tests plant at the borders between the state machine and the simulated world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// The switch says that a change began only when it is over.
    ChangeToldLate,
    /// The switch says that a change is over when it sends it to the engine.
    ChangeEndedEarly,
    /// A target serves a read from whichever copy it has.
    TagIgnored,
    /// A target writes a piece of an earlier copy into the present one.
    LatePieces,
    /// A target applies the writes of a copy in whichever order they come.
    NumbersIgnored,
    /// The switch takes an update that it has sent to a copy for one that the copy has, and targets
    /// do not compare the state of a copy.
    SentIsConfirmed,
    /// The switch takes copies out of the read set only when the home has executed the update.
    UpdateToldLate,
    /// A copy in the making becomes current without what updates have changed meanwhile.
    MissedIgnored,
}

impl Sabotage {
    pub const ALL: [Self; 8] = [
        Self::ChangeToldLate,
        Self::ChangeEndedEarly,
        Self::TagIgnored,
        Self::LatePieces,
        Self::NumbersIgnored,
        Self::SentIsConfirmed,
        Self::UpdateToldLate,
        Self::MissedIgnored,
    ];
}

/// What a run over many seeds must bring about.
pub const MUST_HAPPEN: [&str; 26] = [
    "read at the home",
    "read at a copy",
    "changed",
    "outcome unknown",
    "copy made",
    "copy became useless in the making",
    "copy not made",
    "copy lost",
    "copy dropped",
    "target did not answer a read",
    "write to an earlier copy refused",
    "late write refused",
    "write refused for a gap",
    "update applied by a copy",
    "update refused by a copy",
    "target did not answer an update",
    "update ended with a copy behind",
    "copy rejoined late",
    "update met a change",
    "missed bytes copied",
    "read overtaken by an update",
    "rules changed",
    "home crashed",
    "target lost its copies",
    "somebody paused",
    "question repeated",
];

pub fn target(copy_node: usize) -> TargetName {
    format!("s.{}", copy_node + 1).parse().unwrap()
}

pub fn copy_node_of(target: &TargetName) -> usize {
    target.as_str()[2..].parse::<usize>().unwrap() - 1
}
