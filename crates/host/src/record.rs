//! The stored record of a hosted state machine: which node serves the machine, and under which
//! epoch. Each kind of machine adds its own fields.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use nacre_object::{Error, MapName, NodeName, Result};

/// The node that serves a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The node.
    pub node: NodeName,
    /// The epoch at which the node took over. It distinguishes this takeover from an earlier one by
    /// the same node.
    pub epoch: u64,
    /// A random number that the node draws when it claims the record. It distinguishes two
    /// processes with the same node name that claim the same epoch, so that only one of them
    /// serves.
    pub claim: u64,
}

/// The name of a state machine, unique among the machines of its kind.
pub trait HostedName:
    Borrow<str> + Clone + Ord + Hash + fmt::Display + fmt::Debug + Send + Sync + 'static
{
}

impl<N> HostedName for N where
    N: Borrow<str> + Clone + Ord + Hash + fmt::Display + fmt::Debug + Send + Sync + 'static
{
}

/// The words of a kind, for errors that people read.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// What is named: "log".
    pub thing: &'static str,
    /// What serves it: "sequencer".
    pub authority: &'static str,
    /// What is stored of it: "view".
    pub record: &'static str,
}

/// The stored record of one state machine. It is immutable: a change is a new record with the next
/// epoch.
pub trait Record: Clone + Eq + fmt::Debug + Send + Sync + 'static {
    /// What the machine is called.
    type Name: HostedName;
    /// What people call it.
    const WORDS: Words;
    /// The machine.
    fn name(&self) -> &Self::Name;

    /// Counts the records of this name, from 1.
    fn epoch(&self) -> u64;

    /// The epoch at which the state machine was created. It distinguishes the machine from an
    /// earlier one of the same name.
    fn born(&self) -> u64;

    /// Whether the machine was removed.
    fn is_removed(&self) -> bool;

    /// The node that serves; `None` before the first claim and after removal.
    fn authority(&self) -> Option<&Authority>;

    /// The next record, which names `node` as the authority. `claim` is a random number.
    #[must_use]
    fn claimed_by(&self, node: NodeName, claim: u64) -> Self;

    /// The error for a missing state machine. Its hint says how to make one.
    fn not_found(name: &Self::Name) -> Error;
}

/// A record that the registry keeps in a map, under one key.
pub trait MapRecord: Record {
    /// The key of the record in the machine's map.
    const KEY: &'static str;

    /// The stored form.
    fn encode(&self) -> Vec<u8>;

    /// Reads the stored form.
    ///
    /// # Errors
    /// `Corrupt` if it makes no sense, `Unsupported` for a later format.
    fn decode(encoded: &[u8]) -> Result<Self>;

    /// The map that holds the record of a machine.
    fn map(name: &Self::Name) -> &MapName;

    /// The state machine whose record is in `map`; `None` if the map is of another kind.
    fn of_map(map: &MapName) -> Option<Self::Name>;
}

/// The error of an authority that was replaced.
pub fn deposed<R: Record>() -> Error {
    let Words { thing, authority, record } = R::WORDS;
    Error::stale(format!("the {thing} has another {authority} now"))
        .hint(format!("read the {thing}'s {record} and retry"))
}
