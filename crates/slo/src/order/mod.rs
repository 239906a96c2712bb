//! Order programs: programs that decide the order of service in place of the native order of
//! `nacre-qos`.
//!
//! The map `slo` names a program. Each decision of a target's queue asks the program's live version
//! ([`Orders`]). The program only chooses a tenant. It does not own queues or token buckets, so a
//! new version affects no waiting request. If the program fails, the native order makes that
//! decision, and the failure goes to the cluster log.

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
