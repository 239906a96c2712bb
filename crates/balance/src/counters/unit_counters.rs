//! `UnitCounters`: counts the operations on one unit.

use std::time::Duration;

use super::{DecayedCounter, UnitRates};

/// The counters that the authority of a unit keeps for the unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UnitCounters {
    /// Reads.
    pub reads: DecayedCounter,
    /// Writes.
    pub writes: DecayedCounter,
    /// Listings.
    pub readdir: DecayedCounter,
    /// Times it was fetched from the store.
    pub fetch: DecayedCounter,
    /// Times it was written to the store.
    pub store: DecayedCounter,
}

impl UnitCounters {
    /// Counters of 0 that halve every `half_life`.
    pub fn with_half_life(half_life: Duration) -> Self {
        let counter = || DecayedCounter::with_half_life(half_life);
        Self {
            reads: counter(),
            writes: counter(),
            readdir: counter(),
            fetch: counter(),
            store: counter(),
        }
    }

    /// The counters as they are now.
    pub fn rates(&self, now: Duration) -> UnitRates {
        UnitRates {
            ird: self.reads.value(now),
            iwr: self.writes.value(now),
            readdir: self.readdir.value(now),
            fetch: self.fetch.value(now),
            store: self.store.value(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_a_unit_are_its_counters_at_one_time() {
        let mut counters = UnitCounters::with_half_life(Duration::from_secs(1));
        counters.reads.add(Duration::ZERO, 16.0);
        counters.writes.add(Duration::ZERO, 8.0);
        counters.readdir.add(Duration::ZERO, 4.0);
        counters.fetch.add(Duration::ZERO, 2.0);
        counters.store.add(Duration::ZERO, 1.0);
        let rates = counters.rates(Duration::from_secs(1));
        assert_eq!(rates.values(), [8.0, 4.0, 2.0, 1.0, 0.5]);
        assert_eq!(UnitCounters::default().rates(Duration::from_secs(9)), UnitRates::default());
    }
}
