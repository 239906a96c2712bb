//! One module for each noun of the command.

mod append_progress;
pub mod brados;
mod brados_counts;
mod brados_explain;
mod brados_layouts;
mod brados_tune;
pub mod ceph;
pub mod class;
pub mod entity;
pub mod events;
pub mod init;
pub mod log;
mod log_append;
pub mod map;
pub mod node;
pub mod node_forget;
pub mod object;
mod object_content;
pub mod pool;
pub mod program;
pub mod program_test;
pub mod salvage;
pub mod scrub;
pub mod status;
mod test_bed;
pub mod trace;
pub mod up;
