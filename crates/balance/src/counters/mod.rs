//! Counters whose values decay: how many operations a unit had in the last seconds.

mod decayed_counter;
mod unit_counters;
mod unit_rates;

pub use decayed_counter::DecayedCounter;
pub use unit_counters::UnitCounters;
pub use unit_rates::UnitRates;
