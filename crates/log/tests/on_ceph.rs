//! The log on real Ceph daemons.

#[path = "support/ceph_bed.rs"]
mod bed;
mod daemons;
mod suite;
mod support;
