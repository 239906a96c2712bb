//! The store of the counter. It writes each position once, and refuses requests of old epochs.

use std::collections::BTreeMap;

use super::{Answer, Ask, Sabotage};

#[derive(Debug, Default)]
pub struct Store {
    pub sealed: u64,
    pub written: BTreeMap<u64, u64>,
    /// What must never happen, once it has.
    pub violation: Option<String>,
}

impl Store {
    pub fn run(&mut self, ask: &Ask, sabotage: Option<Sabotage>) -> Answer {
        match *ask {
            Ask::Seal { epoch } => {
                let is_ours = epoch == self.sealed + 1;
                if is_ours {
                    self.sealed = epoch;
                }
                let tail = self.written.last_key_value().map_or(0, |(last, _)| last + 1);
                Answer::Sealed { epoch: self.sealed, is_ours, tail }
            }
            Ask::Write { epoch, position, operation } => {
                if epoch < self.sealed && sabotage != Some(Sabotage::NotSealed) {
                    return Answer::Stale;
                }
                let there = *self.written.entry(position).or_insert(operation);
                if there != operation {
                    self.violation =
                        Some(format!("{position} was handed out to {there} and to {operation}"));
                }
                Answer::Written
            }
            _ => unreachable!("this is not for the store"),
        }
    }
}
