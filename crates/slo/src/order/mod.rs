//! Order programs: they decide whose request a target serves next, in place of the built-in order
//! of `nacre-qos`.
//!
//! The map `slo` names a program. For each decision, the target's queue asks the live version of
//! that program ([`Orders`]). The program only chooses a tenant. It does not own queues or token
//! buckets, so installing a new version affects no waiting request. If the program fails, the
//! built-in order makes that decision, and the failure goes to the cluster log.

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
