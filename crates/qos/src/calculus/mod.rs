//! Network calculus: bounds on the delay of requests, from limits on the arriving work and on the
//! service. Admission uses it to check latency promises.
//!
//! [`queue_delays`] computes deterministic bounds. [`late_probability`] and
//! [`violation_probability`] compute stochastic ones. Deterministic functions return `None` if
//! there is no bound or if a number is NaN, and stochastic functions return the probability 1. So
//! in doubt admission refuses.

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
