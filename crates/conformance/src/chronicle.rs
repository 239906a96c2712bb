//! Counts the events of a simulation: the injected faults, and the situations that they should
//! cause. A simulation in which a situation never occurs proves nothing about it.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Chronicle(BTreeMap<&'static str, u64>);

impl Chronicle {
    /// It happened.
    pub fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    /// What of `expected` has not happened.
    pub fn missing(&self, expected: impl IntoIterator<Item = &'static str>) -> Vec<&'static str> {
        expected.into_iter().filter(|what| !self.0.contains_key(what)).collect()
    }
}

impl fmt::Display for Chronicle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:10} {what}"))
    }
}
