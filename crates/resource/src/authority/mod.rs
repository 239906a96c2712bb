//! The side of the node: the host of resources, their machines, and the capabilities that it lends.

mod confirmation;
mod host;
mod lender;
mod lending;
mod machine;
mod readiness;
mod recovery;

pub use host::{Asker, LendingCounts, ResourceEnv, ResourceHost, ResourceUse};
