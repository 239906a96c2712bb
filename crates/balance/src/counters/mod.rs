//! Counters that forget: how much was asked of a unit in the last seconds.

mod decayed_counter;
mod unit_counters;
mod unit_rates;

pub use decayed_counter::DecayedCounter;
pub use unit_counters::UnitCounters;
pub use unit_rates::UnitRates;
