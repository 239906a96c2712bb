//! The side of the node: the host of resources, their machines, and the capabilities that it lends.

mod confirmation;
mod host;
mod lender;
mod lending;
mod machine;
mod readiness;
mod recovery;
mod usage;

pub use host::{Asker, ResourceEnv, ResourceHost};
pub use usage::{LendingCounts, ResourceUse};
