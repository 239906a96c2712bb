//! The log on real Ceph daemons.

#[path = "support/ceph_bed.rs"]
mod bed;
mod suite;
mod support;
