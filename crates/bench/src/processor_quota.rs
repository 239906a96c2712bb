//! `ProcessorQuota`: limits processes so that together they use at most a share of a processor.
//!
//! On a machine with few processors, nodes and clients compete for them. Without the limit, more
//! nodes would not serve more requests, and balancing could gain nothing.

use std::fs;
use std::path::{Path, PathBuf};

use nacre_object::{Error, Result};

/// Where the kernel's groups are (cgroups, version 1).
const GROUPS: &str = "/sys/fs/cgroup/cpu";
/// How often the kernel renews the processes' share of a processor. A period is far shorter than
/// the times that the benches measure. The smallest share that the kernel grants in a period is a
/// thousand microseconds.
const PERIOD_MICROS: u64 = 50_000;

/// A group of processes with a share of a processor. When the value is dropped, the processes are
/// no longer limited.
#[derive(Debug)]
pub(crate) struct ProcessorQuota(PathBuf);

impl ProcessorQuota {
    /// Limits a process with all its threads to a share of a processor.
    ///
    /// # Errors
    /// `Unsupported` if the kernel lacks cgroups of version 1, or if this process may not create
    /// one.
    pub fn of(pid: u32, processors: f64) -> Result<Self> {
        let group = Path::new(GROUPS).join(format!("nacre-bench-{pid}"));
        let made = fs::create_dir(&group).map(|()| Self(group.clone()));
        let quota = made.and_then(|quota| {
            let micros = (processors * PERIOD_MICROS as f64) as u64;
            fs::write(group.join("cpu.cfs_period_us"), PERIOD_MICROS.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), micros.to_string())?;
            fs::write(group.join("cgroup.procs"), pid.to_string())?;
            Ok(quota)
        });
        quota.map_err(|cause| {
            Error::unsupported(format!("a node cannot be given a share of a processor: {cause}"))
                .hint(format!(
                    "run this as root where the kernel has cgroups, version 1, at {GROUPS}"
                ))
        })
    }
}

impl Drop for ProcessorQuota {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines() {
            // A process that has ended need not change its group.
            let _ = fs::write(Path::new(GROUPS).join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
