//! Follows on a node which versions of programs are active, and makes them live.
//!
//! - `core` decides what to do next. It does no IO.
//! - `runtime` does it: fetches sources by digest, passes them to the node's
//!   [`Hooks`](crate::Hooks), and reports in the map `program-status` which are live.
//!
//! **Invariant:** the node makes every program that the core learned of live, or reports that it
//! failed. An outage only delays this.

mod core;
mod live_table;
mod news;
mod runtime;
#[cfg(test)]
mod simulation;

pub use runtime::Subscriber;
