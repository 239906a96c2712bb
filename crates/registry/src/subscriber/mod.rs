//! A node's side of programs: it follows what is active and makes it live.
//!
//! - `core` decides what to do next, pure;
//! - `runtime` does it: fetches sources by digest, hands them to the node's [`Hooks`](crate::Hooks), and
//!   reports what is live in the map `program-status`.
//!
//! **Invariant:** what the core was told of the map `programs` is, program by program, made live or
//! reported as failed; an outage delays that and loses nothing.

mod core;
mod live_table;
mod news;
mod runtime;
#[cfg(test)]
mod simulation;

pub use runtime::Subscriber;
