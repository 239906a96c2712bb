//! What a profile was measured on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An engine as far as it makes a difference to what transactions take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// `embedded`, or `ceph-` and what its OSDs keep their data by: `ceph-bluestore`.
    pub engine: String,
    /// What keeps the data: a file system, or so many OSDs of which Ceph, and what runs methods there.
    pub device: String,
    /// Of the machine that measured.
    pub cpus: usize,
    /// nacre's.
    pub version: String,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, device, cpus, version } = self;
        write!(f, "{engine} on {device}, {cpus} CPUs, nacre {version}")
    }
}
