//! Discrete-event simulation of tenants that share devices and links.
//!
//! Tests compare the latencies of [`simulate`] with the bounds of admission. Each queue has the
//! real [`Scheduler`](crate::scheduler::Scheduler), with a [simulated device](SimulatedDevice)
//! behind it.

mod device;
mod queue;
mod run;
mod scenario;

pub use run::simulate;
pub use scenario::{
    NextGroup, Scenario, SimulatedDevice, SimulatedQueue, SimulatedRequest, SimulatedTenant, Step,
};
