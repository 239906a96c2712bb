//! Deterministic network calculus with simple curves: it computes the longest delay from the
//! arriving traffic and the service.
//!
//! Admission asks [`queue_delays`] whether every tenant gets its promised latency. All functions
//! return `None` if there is no bound or if a number is NaN. So admission refuses in doubt.

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
