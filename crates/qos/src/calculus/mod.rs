//! Deterministic network calculus with simple curves: from what arrives and what serves to the longest delay.
//!
//! Admission asks [`queue_delays`] whether everybody meets the promised latency. All functions answer `None` where
//! there is no bound, and where a number is missing (NaN). So admission refuses in doubt.

mod independent;
mod latency;
mod priority;
mod queue;
mod rate_burst;
mod service;
mod stochastic;

pub use independent::{SharedQueue, late_probability};
pub use latency::{legs_latency, meets, stages_latency};
pub use priority::priorities;
pub use queue::{Flow, queue_delays};
pub use rate_burst::RateBurst;
pub use service::Service;
pub use stochastic::{
    MarkovSource, StochasticQueue, latency_with_probability, violation_probability,
};

#[cfg(test)]
mod tests;
