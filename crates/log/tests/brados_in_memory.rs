//! Tests the log on the Brados class, with stores in memory.

#[path = "support/brados_bed.rs"]
mod bed;
mod suite;
mod support;
