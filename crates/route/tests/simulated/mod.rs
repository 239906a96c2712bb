//! A simulation in which clients read and write blocks of one object through switches, while a
//! controller changes the rules. See [`World`].

mod checker;
mod client;
mod coin;
mod controllers;
mod flows;
mod store;
mod world;

pub use world::World;

use nacre_object::{Reply, Request};
use nacre_route::{
    Followed, IoId, Move, Order, OrderAnswer, PeerAnswer, PeerQuestion, Placed, ProgramDecision,
    Record, RefusedIo, Stamp, Term,
};

pub const CLIENTS: usize = 4;
pub const CONTROLLERS: usize = 2;
/// The object has so many blocks.
pub const BLOCKS: u64 = 6;
/// A block holds the number of the write that wrote it.
pub const BLOCK_BYTES: u64 = 8;

/// Who sends and gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client(usize),
    Switch(usize),
    Controller(usize),
    /// Keeps all objects and the controller's record.
    Store,
}

/// At which endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    Home,
    Away,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A client's IO, or one that a switch sends on, under the rules of a term.
    Io {
        request: Request,
        term: Option<Term>,
    },
    /// A piece of an IO.
    Piece {
        endpoint: Endpoint,
        request: Request,
        stamp: Option<Stamp>,
    },
    Order {
        term: Term,
        order: Order,
    },
    Peer {
        agreement: Stamp,
        question: PeerQuestion,
    },
    Join {
        switch: usize,
    },
    Load,
    Keep {
        expected: Term,
        record: Record,
    },
    Gather {
        moves: Vec<Move>,
        followed: Vec<Followed>,
    },
    /// A program has decided.
    Decided {
        io: IoId,
        term: Term,
        decided: Result<Vec<ProgramDecision>, RefusedIo>,
    },
    /// The disk is done with what it was slow at.
    SlowDone {
        question: u64,
    },
    /// A timer of whoever gets it.
    Wake,
}

/// The answer to a question. If no answer comes, the asking party gets [`Answer::Silence`].
#[derive(Debug, Clone)]
pub enum Answer {
    Replied(Reply),
    Failed,
    Outrun(Stamp),
    Order(OrderAnswer),
    Peer(PeerAnswer),
    Loaded(Record),
    Kept(bool),
    Gathered(Vec<Placed>),
    Silence,
}

/// Bugs that the tests plant at the borders between the state machines and the simulated world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// One switch does not hold IO when the controller orders it.
    QuiesceSkipped,
    /// A switch says that it has drained while IO is in flight.
    DrainedAtOnce,
    /// Bytes are not moved.
    NotMoved,
    /// Rules are not recovered from where the data lies.
    NotRecovered,
    /// Switches do not hold IO while another one changes bytes.
    PrepareSkipped,
    /// Switches do not hear where bytes are.
    CommitSkipped,
    /// Endpoints take changes that come late.
    LateChanges,
}

impl Sabotage {
    pub const ALL: [Self; 7] = [
        Self::QuiesceSkipped,
        Self::DrainedAtOnce,
        Self::NotMoved,
        Self::NotRecovered,
        Self::PrepareSkipped,
        Self::CommitSkipped,
        Self::LateChanges,
    ];
}

/// What a run over many seeds must bring about.
pub const MUST_HAPPEN: [&str; 20] = [
    "read",
    "written",
    "read from both endpoints at once",
    "outcome unknown",
    "refused",
    "outrun",
    "slow change",
    "late change refused",
    "rules updated",
    "bytes moved",
    "rules recovered from data",
    "program asked",
    "program failed",
    "agreed",
    "agreement failed",
    "switch crashed",
    "controller crashed",
    "controller deposed",
    "switch had no rules",
    "somebody paused",
];
