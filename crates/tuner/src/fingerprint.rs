//! What a profile was measured on.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use nacre_object::{Error, Result};
use nacre_rados::{OsdFacts, Survey};
use serde::{Deserialize, Serialize};

/// The properties of an engine that influence the cost of transactions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// `embedded`, or `ceph-` followed by the object store of the OSDs, such as `ceph-bluestore`.
    pub engine: String,
    /// The device that keeps the data. For the embedded engine it is a file system. For Ceph it is
    /// the number of OSDs, their version, and the software in them that runs methods.
    pub device: String,
    /// The number of CPUs of the machine that ran the measurement.
    pub cpus: usize,
    /// nacre's.
    pub version: String,
}

impl Fingerprint {
    /// The embedded engine in a folder.
    ///
    /// # Errors
    /// `Unavailable` if the folder cannot be looked at.
    pub fn of_folder(folder: &Path) -> Result<Self> {
        let file_system = rustix::fs::statfs(folder).map_err(|error| {
            Error::unavailable(format!(
                "the file system of {} cannot be read: {error}",
                folder.display()
            ))
            .hint("name an existing folder with --folder")
        })?;
        Ok(Self::here("embedded", format!("a file system of type {:#x}", file_system.f_type)))
    }

    /// The fingerprint of a Ceph cluster, from a survey of the classes in its OSDs and the facts
    /// about each OSD.
    pub fn of_ceph(survey: &Survey, osds: &[OsdFacts]) -> Self {
        let all = |of: fn(&OsdFacts) -> &str| {
            let values: BTreeSet<_> = osds.iter().filter(|osd| osd.is_up).map(of).collect();
            values.into_iter().collect::<Vec<_>>().join("+")
        };
        let (stores, versions) = (all(|osd| &osd.object_store), all(|osd| &osd.ceph_version));
        let device = format!("{} OSDs of Ceph {versions}, {survey}", survey.osds.len());
        Self::here(&format!("ceph-{stores}"), device)
    }

    fn here(engine: &str, device: String) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { engine: engine.to_owned(), device, cpus, version }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { engine, device, cpus, version } = self;
        write!(f, "{engine} on {device}, {cpus} CPUs, nacre {version}")
    }
}
