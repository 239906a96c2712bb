//! Capability programs: who holds the capability of a resource or of a log's sequencer, how long, and who is next.

mod decision;
mod hook;
mod interface;
mod live;
mod program;

pub use hook::CapabilityHook;
pub use live::LiveCapabilityPrograms;
pub use program::CapabilityProgram;
