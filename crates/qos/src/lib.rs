//! Tail-latency promises: which latency a tenant can be promised, and whose request is next so that it is kept.
//!
//! The crate follows PriorityMeister, WorkloadCompactor and the thesis *Supporting Tail Latency SLOs in Ceph*.
//!
//! 1. A [`Profile`] says how much work a request is for a device.
//! 2. [`trace::read`] reads what a tenant asked for in the past.

mod io_kind;
pub mod limits;
mod profile;
pub mod trace;

pub use io_kind::IoKind;
pub use profile::{Dip, Link, LinkDirection, Profile, ProfileRow};
