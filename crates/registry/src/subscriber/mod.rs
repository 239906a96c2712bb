//! A node's side of programs: follows which versions are active and makes them live.
//!
//! - `core` decides what to do next. It is pure.
//! - `runtime` does it: fetches sources by digest, hands them to the node's
//!   [`Hooks`](crate::Hooks), and reports in the map `program-status` which are live.
//!
//! **Invariant:** every program that the core was told of is made live or reported as failed. An
//! outage only delays this.

mod core;
mod live_table;
mod news;
mod runtime;
#[cfg(test)]
mod simulation;

pub use runtime::Subscriber;
