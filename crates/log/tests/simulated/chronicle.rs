//! What happened in a world: how often each fault, and how often each thing the faults are there to
//! bring about. A simulation that never gets into trouble proves nothing.

use std::collections::BTreeMap;

use nacre_conformance::network;

/// What must have happened somewhere among the seeds of a run, or the run tests less than it says.
const MUST_HAPPEN: &[&str] = &[
    // Faults, besides those of the network.
    "host crashed",
    "target unreachable",
    "client crashed",
    "host paused",
    "target paused",
    "client paused",
    "views paused",
    "clock forward",
    "clock back",
    // What they lead to.
    "sequencer replaced",
    "recovery raced: another view was first",
    "recovery went back a stripe",
    "seal met a seal",
    "claim in doubt was recognised",
    "deposed sequencer served",
    "sequencer learnt that it is behind",
    "range cut at the tail",
    "range extended",
    "view salted away from a target",
    "view in doubt: sequencer stepped down",
    "write in doubt",
    "write in doubt recognised as done",
    "write refused for its epoch",
    "position of a void grant given up",
    "position given up after a new sequencer",
    "hole filled",
    "fill won against an append",
    "fill lost against data",
    "tail taken to be filled",
    "trim before the append knew",
    "probe looked again in a later view",
    "tail lower than one told before",
];

fn all() -> impl Iterator<Item = &'static &'static str> {
    MUST_HAPPEN.iter().chain(&network::NOTES)
}

/// Counts by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Chronicle(BTreeMap<&'static str, u64>);

impl Chronicle {
    pub fn note(&mut self, what: &'static str) {
        debug_assert!(all().any(|listed| *listed == what), "{what} is not listed");
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    /// What of the list has not happened.
    pub fn missing(&self) -> Vec<&'static str> {
        all().copied().filter(|what| !self.0.contains_key(what)).collect()
    }
}

impl std::fmt::Display for Chronicle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:10} {what}"))
    }
}
