//! `SlowTargets`: a running cluster for benches of latency promises. Each of its three targets has
//! a disk of its own and a measured profile.
//!
//! The kernel slows these disks down, so that three targets together need less than this machine's
//! disk and processors can do. On Ceph the targets are the OSDs of a cluster that the bench starts.

mod own_ceph;

use std::path::PathBuf;
use std::time::Duration;

use nacre::Cluster;
use nacre_node::SloTargets;
use nacre_object::{ObjectId, PoolName, Result, TargetName};
use nacre_qos::IoKind;
use nacre_slo::StoredProfile;
use nacre_terminal::out::note;
use tempfile::TempDir;

pub(crate) use self::own_ceph::{OpQueue, OwnCeph};
use crate::bench::Setup;
use crate::scratch::{self, ScratchCluster};
use crate::throttled_disk::ThrottledDisk;

/// The number of storage targets; on Ceph, the number of OSDs.
pub(crate) const TARGETS: usize = nacre_experiments::thesis::TARGETS;
/// The size of a target's disk. The file behind it takes up space only for written data.
const DISK_BYTES: u64 = 4 << 30;
/// How many bytes a target's disk can read in a second, and how many it can write. Three such disks
/// use a small part of what a present-day disk and two processors can do.
const DISK_BYTES_PER_SECOND: u64 = 24 << 20;
/// The bench prints a warning if the samples of a target's profile differ by more than this
/// fraction of their mean. The promised latencies are then so long that requests rarely miss them,
/// even if nothing is enforced.
const MOST_UNCERTAIN: f64 = 0.5;
/// How long the measurement of the targets' profiles takes, at most.
const PROFILE_TIME: Duration = Duration::from_secs(24);
/// The measurement takes at most this many times as long as the measurement of a side in a round.
const PROFILE_SPANS: u32 = 12;
/// The number of gateways on Ceph. More gateways would take processor time from the three OSDs.
const GATEWAYS: usize = 1;

/// A running cluster with slow targets. The fields are dropped in this order: the processes that
/// use the disks end first.
pub(crate) struct SlowTargets {
    pub cluster: ScratchCluster,
    pub client: Cluster,
    pub targets: SloTargets,
    /// In the order of the targets' names.
    pub profiles: Vec<(TargetName, StoredProfile)>,
    /// The Ceph cluster that keeps the data; `None` if the nodes do.
    pub ceph: Option<OwnCeph>,
    _disks: Vec<ThrottledDisk>,
    _folder: TempDir,
}

impl SlowTargets {
    /// Starts a cluster of storage nodes, and measures the profiles of its targets.
    ///
    /// # Errors
    /// As [`ThrottledDisk::mount`]; `Unavailable` if a node does not start.
    pub async fn start(setup: &Setup) -> Result<Self> {
        let folder = scratch::folder(&setup.folder)?;
        // Mount the disks where the cluster keeps its targets.
        let disks = disks(&folder, |number| format!("cluster/storage.{number}").into())?;
        let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
        Self::profiled(setup, folder, disks, None, cluster).await
    }

    /// Starts a cluster on Ceph if the user named a script that starts one, else storage nodes.
    ///
    /// # Errors
    /// As [`SlowTargets::start`] and [`SlowTargets::start_on_ceph`].
    pub async fn start_on_either(setup: &Setup) -> Result<Self> {
        match setup.ceph_cluster {
            Some(_) => Self::start_on_ceph(setup).await,
            None => Self::start(setup).await,
        }
    }

    /// Starts a Ceph cluster and a gateway to it, and measures the profiles of the OSDs. The bench
    /// needs OSDs with disks of their own.
    ///
    /// # Errors
    /// `Invalid` if the user named no script that starts a Ceph cluster; as [`SlowTargets::start`].
    pub async fn start_on_ceph(setup: &Setup) -> Result<Self> {
        let script = setup.ceph_script()?;
        let folder = scratch::folder(&setup.folder)?;
        let disk_folder = |number| folder.path().join(format!("osd.{number}"));
        let disks = disks(&folder, disk_folder)?;
        let disk_folders: Vec<_> = (0..TARGETS).map(disk_folder).collect();
        let (base, classes) = (folder.path(), setup.class_folder());
        let mut ceph = OwnCeph::start(script, base, TARGETS, &disk_folders, classes)?;
        ceph.ready().await?;
        ceph.measure_capacity().await?;
        let (options, program) = (ceph.options(), &setup.program);
        let cluster =
            ScratchCluster::start_gateways(folder.path(), &options, GATEWAYS, program).await?;
        Self::profiled(setup, folder, disks, Some(ceph), cluster).await
    }

    /// Measures the profiles. After an interrupt the arguments are dropped from the last to the
    /// first, so the processes end before the disks are unmounted and the folder is removed.
    async fn profiled(
        setup: &Setup,
        folder: TempDir,
        disks: Vec<ThrottledDisk>,
        ceph: Option<OwnCeph>,
        cluster: ScratchCluster,
    ) -> Result<Self> {
        let client = cluster.client().await?;
        let targets = SloTargets::new(cluster.supervisor.cluster(), &client)?;
        let time = PROFILE_TIME.min(setup.span * PROFILE_SPANS);
        let profiles = profile(&targets, &client, time).await?;
        Ok(Self { cluster, client, targets, profiles, ceph, _disks: disks, _folder: folder })
    }

    /// The work of a write of this size on the slowest target, in seconds.
    pub fn write_seconds(&self, bytes: u64) -> f64 {
        let work =
            |(_, stored): &(_, StoredProfile)| stored.profile.work_seconds(IoKind::Write, bytes);
        self.profiles.iter().map(work).fold(0.0, f64::max)
    }

    /// Ends the processes of the cluster.
    pub async fn stop(self) {
        self.cluster.stop().await;
    }
}

/// Returns `of_each` objects of each target, ordered so that neighbours are on different targets.
///
/// # Errors
/// As [`SloTargets::objects`].
pub(crate) async fn objects(
    targets: &SloTargets,
    pool: &str,
    prefix: &str,
    of_each: usize,
) -> Result<Vec<ObjectId>> {
    let by_target = targets.objects(&PoolName::new(pool)?, prefix, of_each).await?;
    let rows = (0..of_each).map(|row| by_target.values().filter_map(move |own| own.get(row)));
    Ok(rows.flatten().cloned().collect())
}

/// Mounts a disk for each target. `folder` gives the disk's folder by the target's number, relative
/// to `base`.
fn disks(base: &TempDir, folder: impl Fn(usize) -> PathBuf) -> Result<Vec<ThrottledDisk>> {
    let disk = |number| {
        let image = base.path().join(format!("disk.{number}"));
        let folder = base.path().join(folder(number));
        ThrottledDisk::mount(&image, DISK_BYTES, &folder, DISK_BYTES_PER_SECOND)
    };
    (0..TARGETS).map(disk).collect()
}

async fn profile(
    targets: &SloTargets,
    client: &Cluster,
    time: Duration,
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let profiling = targets.begin_profile(time).await?;
    let measured = profiling.measure(|what| note(&format!("measuring {what}"))).await;
    profiling.finish().await?;
    let profiles = measured?;
    client.slos().set_profiles(&profiles).await?;
    for (target, stored) in &profiles {
        let most = |bytes| 1.0 / stored.profile.work_seconds(IoKind::Write, bytes);
        note(&format!(
            "{target} can be promised {:.0} writes of 4 KiB a second, or {:.0} of 256 KiB; what was sent before may \
             take {:.0} ms",
            most(4096),
            most(256 << 10),
            stored.blocking_seconds() * 1e3
        ));
        if stored.uncertainty > MOST_UNCERTAIN {
            let percent = stored.uncertainty * 100.0;
            note(&format!(
                "its samples differ by {percent:.0}%, so the promises are long and show little: measure when nothing \
                 else runs"
            ));
        }
    }
    Ok(profiles)
}
