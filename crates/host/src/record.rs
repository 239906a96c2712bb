//! What is stored of a machine: who serves it, under which epoch, and what its kind adds.

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;

use nacre_object::{Error, MapName, NodeName, Result};

/// The node that serves a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The node.
    pub node: NodeName,
    /// The epoch at which the node took over. It distinguishes this take-over from an earlier one
    /// by the same node.
    pub epoch: u64,
    /// A random number that the claimant draws. If two processes with the same node name claim the
    /// same epoch, it tells their claims apart, so that they never both serve.
    pub claim: u64,
}

/// What a machine of a kind is called: unique among its kind.
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

/// The stored record of one machine. It is immutable; a change is a successor with the next epoch.
pub trait Record: Clone + Eq + fmt::Debug + Send + Sync + 'static {
    /// What the machine is called.
    type Name: HostedName;
    /// What people call it.
    const WORDS: Words;
    /// The machine.
    fn name(&self) -> &Self::Name;

    /// Counts the records of this name, from 1.
    fn epoch(&self) -> u64;

    /// The epoch at which the machine was created. It distinguishes the machine from an earlier one
    /// of the same name.
    fn born(&self) -> u64;

    /// Whether the machine was removed.
    fn is_removed(&self) -> bool;

    /// The node that serves; `None` before the first claim and after removal.
    fn authority(&self) -> Option<&Authority>;

    /// The successor that names `node`, with a random number of this claim.
    #[must_use]
    fn claimed_by(&self, node: NodeName, claim: u64) -> Self;

    /// The error of a machine that does not exist: how to make one.
    fn not_found(name: &Self::Name) -> Error;
}

/// A record that is kept in a map of the registry, under one key.
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

    /// The machine whose record is in a map; `None` if the map is of another kind.
    fn of_map(map: &MapName) -> Option<Self::Name>;
}

/// The error of an authority that was replaced.
pub fn deposed<R: Record>() -> Error {
    let Words { thing, authority, record } = R::WORDS;
    Error::stale(format!("the {thing} has another {authority} since"))
        .hint(format!("read the {thing}'s {record} and retry"))
}
