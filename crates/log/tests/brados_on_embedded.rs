//! Tests the log on the Brados class, with the embedded engine.

#[path = "support/embedded_bed.rs"]
mod bed;
mod suite;
mod support;
