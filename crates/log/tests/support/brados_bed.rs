//! Stores in memory, for logs on the Brados class.

#[path = "memory_bed.rs"]
mod memory_bed;

pub use memory_bed::{Bed, seeds};

/// The class of its logs.
pub const CLASS: &str = nacre_log::BRADOS_CLASS;
/// Its method that writes what a client sends at a time.
pub const WRITES: &str = "write.batch";
