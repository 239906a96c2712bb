//! Capability programs. They decide which client holds the capability of a resource or of a log's
//! sequencer, for how long, and which client is next.

mod decision;
mod hook;
mod interface;
mod policies;
mod program;

pub use hook::{CapabilityHook, LiveCapabilityPrograms};
pub use policies::CapabilityPolicies;
pub use program::CapabilityProgram;
