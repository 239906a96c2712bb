//! The log on the class that is made of relations, on the embedded engine.

#[path = "support/embedded_bed.rs"]
mod bed;
mod suite;
mod support;
