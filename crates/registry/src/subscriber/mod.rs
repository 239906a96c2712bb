//! Follows on a node which versions of programs are active, and makes them live.
//!
//! - `core` decides what the node does next. It does no IO.
//! - `runtime` carries out the decisions: it fetches sources by digest, passes them to the node's
//!   [`Hooks`](crate::Hooks), and reports in the map `program-status` which versions are live.
//!
//! **Invariant:** for every activation that the core learns of, the node makes the version live or
//! reports the failure. An outage only delays this.

mod core;
mod live_table;
mod news;
mod runtime;
#[cfg(test)]
mod simulation;

pub use runtime::Subscriber;
