//! What a log does, whatever keeps its objects.

mod cases;
pub mod faults;
mod foreign_views;
pub mod layouts;
pub mod linearizability;
mod log;
mod lost;
mod moves;
mod readers;
mod removal;
mod stale_views;
mod storage;
mod trims;
