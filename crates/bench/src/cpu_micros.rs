//! The CPU time that operations on a Ceph cluster use.

use std::time::Duration;

use nacre_object::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::osd_processes::OsdProcesses;

/// CPU time in microseconds.
pub(crate) struct CpuMicros {
    pub osds: f64,
    /// Of this process.
    pub client: f64,
}

impl CpuMicros {
    /// The CPU time that this process and the given OSDs have used so far. The time of OSDs on
    /// other machines is unknown.
    ///
    /// # Errors
    /// `Unavailable` if an OSD ended.
    pub fn now(osds: Option<&OsdProcesses>) -> Result<Self> {
        let osds = osds.map_or(Ok(0.0), OsdProcesses::cpu_micros)?;
        let client = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
        Ok(Self { osds, client: client.unwrap_or_default().as_secs_f64() * 1e6 })
    }

    /// What each of so many operations used since.
    pub fn each_since(self, before: &Self, operations: u64) -> Self {
        let each = |now: f64, before: f64| (now - before) / operations as f64;
        Self { osds: each(self.osds, before.osds), client: each(self.client, before.client) }
    }
}
