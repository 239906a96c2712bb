//! A node: the process that keeps objects or hosts sequencers, and the supervisor that runs a
//! cluster of them on one machine.

mod membership;
mod node;
mod sequencer_service;
mod status_service;
mod supervisor;

pub use node::Node;
pub use status_service::{NODE_SERVICE, NodeReport, StorageReport};
pub use supervisor::{NodeState, READY_LINE, Supervisor};
