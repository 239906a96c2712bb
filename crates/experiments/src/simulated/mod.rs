//! Figures of papers that simulators compute: `nacre-bench experiment mantle-…`, `malacology-…` and `thesis-…`.
//!
//! A [`SimulatedFigure`] is simulated once for each seed, and gives a [`SimulatedReport`]: what the paper found beside what
//! was simulated, and charts. The policies are those of `programs/balancer`.
//!
//! - `trial`: a policy that balances what clients of the Mantle paper do;
//! - `creates`, `compilations`: figures of the Mantle paper;
//! - `sequencers`, `sequencer_modes`: figures of the Malacology paper;
//! - `latency_promises`: figures of the thesis on SLOs, by the simulator of `qos` instead of that of balancing.
//!
//! **Invariant:** no number of a report is written down here, except what a paper says. The same code and seeds give the
//! same report.

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
