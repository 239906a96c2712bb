//! The log on stores in memory, in virtual time.

#[path = "support/memory_bed.rs"]
mod bed;
mod suite;
mod support;
mod virtual_time;
