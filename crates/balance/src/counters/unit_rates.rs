//! `UnitRates`: the counters of a unit as they were at one time.

use serde::{Deserialize, Serialize};

/// A snapshot of a unit's counters, as plain numbers. A field that is missing in JSON is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitRates {
    /// Reads; for a directory, reads of its inodes. Policies know this counter as `IRD`.
    pub ird: f64,
    /// Writes; for a directory, writes of its inodes. Policies know this counter as `IWR`.
    pub iwr: f64,
    /// Listings. Policies know it as `READDIR`.
    pub readdir: f64,
    /// Times the unit was fetched from the store. Policies know it as `FETCH`.
    pub fetch: f64,
    /// Times the unit was written to the store. Policies know it as `STORE`.
    pub store: f64,
}

impl UnitRates {
    /// The names by which policies know the counters, in the order of [`UnitRates::values`].
    pub const NAMES: [&str; 5] = ["IRD", "IWR", "READDIR", "FETCH", "STORE"];

    /// The counters in a fixed order.
    pub fn values(&self) -> [f64; 5] {
        [self.ird, self.iwr, self.readdir, self.fetch, self.store]
    }
}
