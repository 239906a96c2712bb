//! The smallest kind of machine, for the tests of this crate.

use nacre_object::{Error, NodeName};

use crate::core::{Recovery, Step};
use crate::record::{Authority, Record, Words};

pub fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// The record of a counter: nothing but who serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    name: String,
    epoch: u64,
    authority: Option<Authority>,
}

impl Count {
    /// The first record of a counter, epoch 1.
    pub fn first(name: &str) -> Self {
        Self { name: name.into(), epoch: 1, authority: None }
    }
}

impl Record for Count {
    type Name = String;
    const WORDS: Words = Words { thing: "counter", authority: "keeper", record: "record" };

    fn name(&self) -> &String {
        &self.name
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn born(&self) -> u64 {
        1
    }

    fn is_removed(&self) -> bool {
        false
    }

    fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    fn claimed_by(&self, node: NodeName, claim: u64) -> Self {
        let epoch = self.epoch + 1;
        Self { authority: Some(Authority { node, epoch, claim }), epoch, ..self.clone() }
    }

    fn not_found(name: &String) -> Error {
        Error::not_found(format!("there is no counter {name}"))
    }
}

/// Seals the one place where a counter is kept, and finds its value.
#[derive(Debug)]
pub struct CountRecovery(Count);

impl CountRecovery {
    /// The event that somebody has sealed already.
    pub const IN_DOUBT: u64 = u64::MAX;
}

impl Recovery for CountRecovery {
    type Record = Count;
    /// Seal at this epoch.
    type Command = u64;
    /// The value that was found.
    type Event = u64;
    type Found = u64;

    fn new(claimed: Count) -> Self {
        Self(claimed)
    }

    fn start(&mut self) -> Vec<Step<u64, u64>> {
        vec![Step::Do(self.0.epoch)]
    }

    fn handle(&mut self, event: u64) -> Vec<Step<u64, u64>> {
        match event {
            Self::IN_DOUBT => vec![Step::CheckClaim],
            found => vec![Step::Serve(found)],
        }
    }

    fn claim_stands(&mut self) -> Vec<Step<u64, u64>> {
        self.start()
    }
}
