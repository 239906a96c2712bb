//! A node: the process that keeps objects or hosts sequencers, and the supervisor that runs a
//! cluster of them on one machine.

mod guard;
mod membership;
mod node;
mod node_service;
mod sequencer_service;
mod supervisor;

pub use node::Node;
pub use node_service::{NODE_SERVICE, NodeReport, ObjectPlace, StorageReport};
pub use supervisor::{NodeState, READY_LINE, Supervisor};
