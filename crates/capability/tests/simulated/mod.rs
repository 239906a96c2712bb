//! A counter whose capability clients hold. See [`World`].

mod client;
mod host;
mod store;
mod world;

pub use world::World;

pub const HOSTS: usize = 2;
pub const CLIENTS: usize = 4;

/// Who sends and gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client(usize),
    Host(usize),
    /// Keeps what was written at each position, and refuses old epochs.
    Store,
}

/// What a holder tells of its grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub client: u64,
    pub number: u64,
    pub next: u64,
    pub operations: u64,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    /// The epoch is the latest that the client knows of.
    Acquire {
        host: usize,
        client: u64,
        number: u64,
        returned: Option<Told>,
        epoch: u64,
    },
    Hold {
        host: usize,
        told: Told,
    },
    Return {
        host: usize,
        told: Told,
    },
    Write {
        epoch: u64,
        position: u64,
        operation: u64,
    },
    Seal {
        epoch: u64,
    },
    /// A timer of whoever gets it.
    Wake,
}

impl Ask {
    pub fn to(&self, from: Party) -> Party {
        match self {
            Self::Acquire { host, .. } | Self::Hold { host, .. } | Self::Return { host, .. } => {
                Party::Host(*host)
            }
            Self::Write { .. } | Self::Seal { .. } => Party::Store,
            Self::Wake => from,
        }
    }
}

/// The answer to a question. If there is none, the asker gets [`Answer::Silence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Lent {
        next: u64,
        epoch: u64,
        lease: u64,
        quota: Option<u64>,
    },
    Position {
        position: u64,
        epoch: u64,
    },
    Stands {
        lease: u64,
    },
    Ended,
    Refused,
    Written,
    Stale,
    /// The result of a seal: the stored epoch, whether this host sealed it, and the first position
    /// after the written ones.
    Sealed {
        epoch: u64,
        is_ours: bool,
        tail: u64,
    },
    Silence,
}

/// Bugs planted where the cores meet the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// A holder goes on after it has returned its grant.
    ReturnedStillUsed,
    /// A host continues at the position where a grant began, not where it ended.
    TailForgotten,
    /// A host that evicts a holder seals nothing.
    NotSealed,
    /// A holder does not count its lease.
    LeaseIgnored,
}

impl Sabotage {
    pub const ALL: [Self; 4] =
        [Self::ReturnedStillUsed, Self::TailForgotten, Self::NotSealed, Self::LeaseIgnored];
}

/// What a run over many seeds must bring about.
pub const MUST_HAPPEN: [&str; 16] = [
    "granted",
    "served by a round trip",
    "revoked",
    "returned with a question",
    "evicted",
    "operation by a grant",
    "lease over",
    "quota used up",
    "late operation refused",
    "answer to an earlier question refused",
    "client crashed",
    "host crashed",
    "two authorities at once",
    "somebody paused",
    "clock forward",
    "clock back",
];
