//! Figures of papers that the balancing simulator computes: `nacre-bench experiment mantle-…` and `malacology-…`.
//!
//! A [`SimulatedFigure`] is simulated once for each seed, and gives a [`SimulatedReport`]: what the paper found beside what
//! was simulated, and charts. The policies are those of `programs/balancer`.
//!
//! - `workloads`, `trial`: clients of the Mantle paper, and a policy that balances what they do;
//! - `creates`, `compilations`: figures of the Mantle paper;
//! - `sequencers`, `sequencer_modes`: figures of the Malacology paper.
//!
//! **Invariant:** no number of a report is written down here, except what a paper says. The same code and seeds give the
//! same report.

mod compilations;
mod creates;
mod figure;
mod policies;
mod report;
mod sequencer_modes;
mod sequencers;
mod trial;
mod workloads;

pub use figure::SimulatedFigure;
pub use report::{Finding, SimulatedChart, SimulatedReport};
