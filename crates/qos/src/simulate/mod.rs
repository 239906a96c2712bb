//! Discrete-event simulation of tenants that share devices and links.
//!
//! Tests compare latencies of [`simulate`] with the bounds of admission, and `whatif` questions can be played. Each
//! queue has the real [`Scheduler`](crate::scheduler::Scheduler) and a device behind it, which serves one request at
//! a time in the order in which it gets them.

mod queue;
mod run;
mod scenario;

pub use run::simulate;
pub use scenario::{Scenario, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step};
