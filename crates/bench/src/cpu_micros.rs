//! The CPU time that operations use in servers and in the client.

use std::time::Duration;

use nacre_object::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::processes::Processes;

/// CPU time in microseconds.
pub(crate) struct CpuMicros {
    pub servers: f64,
    /// Of this process.
    pub client: f64,
}

impl CpuMicros {
    /// The CPU time that this process and the given servers have used so far. The time of servers
    /// on other machines is unknown.
    ///
    /// # Errors
    /// `Unavailable` if a server ended.
    pub fn now(servers: Option<&Processes>) -> Result<Self> {
        let servers = servers.map_or(Ok(0.0), Processes::cpu_micros)?;
        let client = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
        Ok(Self { servers, client: client.unwrap_or_default().as_secs_f64() * 1e6 })
    }

    /// What each of so many operations used since.
    pub fn each_since(self, before: &Self, operations: u64) -> Self {
        let each = |now: f64, before: f64| (now - before) / operations as f64;
        let client = each(self.client, before.client);
        Self { servers: each(self.servers, before.servers), client }
    }
}
