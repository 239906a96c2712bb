//! A world of cores. See [`World`].

mod client;
mod host;
mod must_happen;
mod objects;
mod probe;
mod sabotage;
mod world;

pub use must_happen::MUST_HAPPEN;
use nacre_log::view::View;
use nacre_object::{Locate, NodeName, ObjectId, TargetName};
pub use sabotage::Sabotage;
pub use world::{Tracing, World};

pub const TARGETS: usize = 3;
pub const HOSTS: usize = 3;
pub const CLIENTS: usize = 4;

/// Who sends and gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Client(usize),
    Host(usize),
    Target(usize),
    /// Where the view is stored.
    Views,
}

/// What is asked.
#[derive(Debug, Clone)]
pub enum Ask {
    Next { host: usize, epoch: u64 },
    Tail { host: usize, epoch: u64 },
    Recover { host: usize, epoch: u64 },
    ReadView,
    Propose(View),
    Seal { object: ObjectId, epoch: u64 },
    Maximum { object: ObjectId },
    Write { object: ObjectId, epoch: u64, position: u64, record: u64 },
    Read { object: ObjectId, epoch: u64, position: u64 },
    Fill { object: ObjectId, epoch: u64, position: u64 },
    Trim { object: ObjectId, epoch: u64, position: u64 },
}

impl Ask {
    /// Who is asked.
    pub fn to(&self) -> Party {
        match self {
            Self::Next { host, .. } | Self::Tail { host, .. } | Self::Recover { host, .. } => {
                Party::Host(*host)
            }
            Self::ReadView | Self::Propose(_) => Party::Views,
            Self::Seal { object, .. }
            | Self::Maximum { object }
            | Self::Write { object, .. }
            | Self::Read { object, .. }
            | Self::Fill { object, .. }
            | Self::Trim { object, .. } => Party::Target(target_number(object)),
        }
    }
}

/// The answer to a request. If there is none, the client gets [`Answer::Silence`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Granted { position: u64, epoch: u64 },
    Tail { tail: u64, epoch: u64 },
    Refused,
    View(View),
    Proposed(bool),
    Status(i32),
    Maximum(Option<u64>),
    Holds(nacre_conformance::histories::Cell),
    Silence,
}

/// The storage interface's statuses.
pub const ENOENT: i32 = -2;
pub const ESPIPE: i32 = -29;
pub const EROFS: i32 = -30;

/// Placement over the targets by a checksum of the placement key.
pub struct Placement;

impl Locate for Placement {
    fn locate(&self, object: &ObjectId) -> TargetName {
        let key = object.name.placement_key().bytes();
        let sum = key.fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        self.targets()[sum as usize % TARGETS].clone()
    }

    fn targets(&self) -> Vec<TargetName> {
        (0..TARGETS).map(|n| TargetName::new(format!("t{n}")).unwrap()).collect()
    }
}

pub fn target_number(object: &ObjectId) -> usize {
    Placement.locate(object).as_str()[1..].parse().unwrap()
}

pub fn node(n: usize) -> NodeName {
    NodeName::new(format!("n{n}")).unwrap()
}

pub fn node_number(name: &NodeName) -> usize {
    name.as_str()[1..].parse().unwrap()
}
