//! Figures of papers that simulators compute: `nacre-bench experiment mantle-…`, `malacology-…` and
//! `thesis-…`.
//!
//! A [`SimulatedFigure`] is simulated once for each seed. The result is a [`SimulatedReport`]: the
//! values of the paper beside the simulated values, and charts. The policies are those of
//! `programs/balancer`.
//!
//! - `trial`: simulates a workload of the Mantle paper under a policy;
//! - `creates`, `compilations`: figures of the Mantle paper;
//! - `sequencers`, `sequencer_modes`: figures of the Malacology paper;
//! - `latency_promises`: figures of the thesis on SLOs, by the simulator of the crate `qos` instead
//!   of the balancing simulator.
//!
//! **Invariant:** the code contains no results except the values of a paper. The same code and
//! seeds give the same report.

mod compilations;
mod creates;
mod figure;
mod latency_promises;
mod report;
mod sequencer_modes;
mod sequencers;
mod trial;

pub use figure::SimulatedFigure;
pub use report::{Finding, SimulatedReport};
