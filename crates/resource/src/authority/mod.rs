//! What a node runs to serve resources: the host, the resources, and the capabilities it grants.

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
