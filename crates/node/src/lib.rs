//! A node: the process that keeps objects or hosts sequencers, and the supervisor that runs a
//! cluster of them on one machine.

mod calls;
mod ceph_gateway;
mod ceph_pulse;
mod free_ports;
mod guard;
#[cfg(test)]
mod limits_page_tests;
mod log_tail;
mod membership;
pub mod metrics;
mod node;
mod node_lock;
mod node_log;
mod node_service;
mod osd_survey;
mod refusals;
mod refused_target;
mod room_watch;
mod scrape_targets;
mod sequencer_service;
mod storage;
mod supervisor;
mod traces;

pub use calls::{NodeCalls, gather_calls};
pub use free_ports::free_ports;
pub use node::{Node, NodeOptions};
pub use node_lock::NodeLock;
pub use node_log::{Level, NodeLog};
pub use node_service::{
    DamageReport, NODE_SERVICE, NodeReport, ObjectPlace, RadosReport, RefusalReport, ScrubReport,
    StorageReport, StrayReport,
};
pub use scrape_targets::ScrapeTargets;
pub use supervisor::{
    KeptNode, KeptReport, NodeEnd, NodeState, Supervisor, kept_nodes, ready_line,
};
