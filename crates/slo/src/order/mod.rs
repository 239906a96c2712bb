//! Orders of service that are programs, in place of the native order of `nacre-qos`.
//!
//! The map `slo` names a program. Each decision of a target's queue asks the version that is live then ([`Orders`]). A
//! decision chooses a tenant; queues and token buckets are not its own, so a change of the program touches no request that
//! waits. Where the program fails the native order makes that decision, and the cluster log hears of it.

mod candidate;
#[cfg(feature = "programs")]
mod hook;
#[cfg(feature = "programs")]
mod interface;
#[cfg(feature = "programs")]
mod program;
#[cfg(feature = "programs")]
mod programs;

pub use candidate::{Candidate, NoOrders, Order, Orders};
#[cfg(feature = "programs")]
pub use hook::{LiveOrders, OrderHook};
#[cfg(feature = "programs")]
pub use program::OrderProgram;
#[cfg(feature = "programs")]
pub use programs::OrderPrograms;
