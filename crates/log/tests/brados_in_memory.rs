//! The log on the class that is made of relations, on stores in memory.

#[path = "support/brados_bed.rs"]
mod bed;
mod suite;
mod support;
