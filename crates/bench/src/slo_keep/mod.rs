//! `slo-keep`: whether tenants get the latency that they were promised while another tenant sends
//! far more than it asked for.
//!
//! Three tenants are promised the latencies of the thesis, scaled to this machine's speed. Two of
//! them send what they asked for; the third writes as hard as it can. The bench compares several
//! ways to serve this load, its *sides*. It measures them in turns:
//!
//! - promises are enforced;
//! - nothing is enforced: nodes pass requests on as they come;
//! - on Ceph also without nacre, with each of the two queues that an OSD can have.
//!
//! Every target has a disk of its own. The kernel slows these disks down, so that three targets
//! together need less than this machine's disk and processors can do. The host of a virtual machine
//! may take processor time from it (*stolen* time). The bench discards a round with too much stolen
//! time.

mod figures;
mod load;
mod own_ceph;
mod tally;
mod tenants;

use std::path::Path;
use std::time::Duration;

use nacre::Cluster;
use nacre_clock::{Clock, SystemClock};
use nacre_node::SloTargets;
use nacre_object::{Error, ObjectId, PoolName, Result, TargetName};
use nacre_rados::PlainClient;
use nacre_slo::StoredProfile;
use nacre_terminal::out::note;
use tempfile::TempDir;

use self::figures::Measured;
use self::load::{WriteTarget, WriteTargets, play};
use self::own_ceph::{OpQueue, OwnCeph};
use self::tenants::{Promises, TENANTS};
use crate::bench::Setup;
use crate::figure::Figure;
use crate::load::in_turn;
use crate::processor_times::ProcessorTimes;
use crate::scratch::{self, ScratchCluster};
use crate::throttled_disk::ThrottledDisk;

/// The number of storage targets; on Ceph, the number of OSDs.
const TARGETS: usize = 3;
/// The size of a target's disk. The file behind it takes up space only for written data.
const DISK_BYTES: u64 = 4 << 30;
/// How many bytes a target's disk can read in a second, and how many it can write. Three such disks
/// use a small part of what a present-day disk and two processors can do.
const DISK_BYTES_PER_SECOND: u64 = 24 << 20;
/// The bench prints a warning if the samples of a target's profile differ by more than this
/// fraction of their mean. The promised latencies are then so long that requests rarely miss them,
/// even if nothing is enforced.
const MOST_UNCERTAIN: f64 = 0.5;
/// How long the measurement of the targets' profiles takes.
const PROFILE_TIME: Duration = Duration::from_secs(24);
/// How many objects each tenant has on each target, in the order of [`TENANTS`].
const OBJECTS: [usize; TENANTS.len()] = [4, 4, 16];
/// The number of gateways on Ceph. More gateways would take processor time from the three OSDs.
const GATEWAYS: usize = 1;
/// The RADOS namespace of the objects that are written without nacre.
const STOCK: &str = "stock";
/// The bench discards a round in which the host took more than this part of the time.
const MOST_STOLEN: f64 = 0.01;
/// How many rounds the bench tries at most for each round that the user asked for.
const TRIES: usize = 4;
/// How long restarted OSDs may take until they serve.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two tries to write to restarted OSDs.
const READY_PAUSE: Duration = Duration::from_millis(200);

/// A way of serving the tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// nacre serves them, and enforces promises.
    Enforced,
    /// nacre serves them, and enforces nothing.
    Unenforced,
    /// Ceph serves them without nacre.
    Stock(OpQueue),
}

impl Side {
    const EMBEDDED: [Self; 2] = [Self::Enforced, Self::Unenforced];
    /// Sides with the same queue in the OSDs are neighbours, because a change of the queue needs a
    /// restart of the OSDs.
    const ON_CEPH: [Self; 4] =
        [Self::Enforced, Self::Unenforced, Self::Stock(OpQueue::Wpq), Self::Stock(OpQueue::Mclock)];

    fn name(self) -> &'static str {
        match self {
            Self::Enforced => "promises enforced",
            Self::Unenforced => "not enforced",
            Self::Stock(OpQueue::Wpq) => "stock Ceph, wpq",
            Self::Stock(OpQueue::Mclock) => "stock Ceph, mclock_scheduler",
        }
    }

    /// The queue of operations in the OSDs on this side. On nacre's sides it is `wpq`.
    fn op_queue(self) -> OpQueue {
        match self {
            Self::Stock(queue) => queue,
            Self::Enforced | Self::Unenforced => OpQueue::Wpq,
        }
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    // Mount the disks where the cluster keeps its targets.
    let _disks = disks(&folder, |number| format!("cluster/storage.{number}").into())?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let bed = Bed::new(cluster, None).await?;
    let measured = bed.measure(setup, &Side::EMBEDDED).await?;
    bed.cluster.stop().await;
    measured.report("slo-keep", report);
    Ok(())
}

/// Runs the same measurement on a separate Ceph cluster. The measurement needs OSDs with disks of
/// their own, and restarts the OSDs with other settings.
pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let script = setup.ceph_cluster.as_deref().ok_or_else(|| {
        Error::invalid("slo-keep on Ceph brings a cluster of its own")
            .hint("say how: --ceph-cluster scripts/ceph-cluster")
    })?;
    let folder = scratch::folder(&setup.folder)?;
    let disk_folder = |number| folder.path().join(format!("osd.{number}"));
    let _disks = disks(&folder, disk_folder)?;
    let disk_folders: Vec<_> = (0..TARGETS).map(disk_folder).collect();
    let class_folder = setup.program.parent().unwrap_or(Path::new("/"));
    let mut ceph = OwnCeph::start(script, folder.path(), &disk_folders, class_folder)?;
    ceph.ready().await?;
    let options = ceph.options();
    let cluster =
        ScratchCluster::start_gateways(folder.path(), &options, GATEWAYS, &setup.program).await?;
    let bed = Bed::new(cluster, Some(ceph)).await?;
    let measured = bed.measure(setup, &Side::ON_CEPH).await?;
    bed.cluster.stop().await;
    measured.report("slo-keep on Ceph", report);
    Ok(())
}

/// Mounts a disk for each target. `folder` gives the disk's folder by the target's number, relative
/// to `base`.
fn disks(
    base: &TempDir,
    folder: impl Fn(usize) -> std::path::PathBuf,
) -> Result<Vec<ThrottledDisk>> {
    let disk = |number| {
        let image = base.path().join(format!("disk.{number}"));
        let folder = base.path().join(folder(number));
        ThrottledDisk::mount(&image, DISK_BYTES, &folder, DISK_BYTES_PER_SECOND)
    };
    (0..TARGETS).map(disk).collect()
}

/// A running cluster with admitted tenants, on which the bench measures.
struct Bed {
    cluster: ScratchCluster,
    client: Cluster,
    promises: Promises,
    /// The objects that the tenants write through nacre.
    places: WriteTargets,
    stock: Option<Stock>,
}

/// The Ceph cluster, and the objects that the tenants write on it without nacre.
struct Stock {
    ceph: OwnCeph,
    places: WriteTargets,
}

impl Bed {
    /// Measures the targets' profiles, and admits the tenants.
    async fn new(cluster: ScratchCluster, ceph: Option<OwnCeph>) -> Result<Self> {
        let client = cluster.client().await?;
        let targets = SloTargets::new(cluster.supervisor.cluster(), &client)?;
        let profiles = profile(&targets, &client).await?;
        let promises = Promises::make(&client, &profiles).await?;
        tell(&promises);
        let mut places = WriteTargets::default();
        for ((tenant, of_each), places) in TENANTS.iter().zip(OBJECTS).zip(&mut places) {
            // Each tenant has sessions of its own, so tenants do not wait for one another before
            // their requests reach a node.
            let own = cluster.client().await?;
            for object in objects(&targets, tenant.name, tenant.name, of_each).await? {
                places.push(WriteTarget::Nacre(own.object(&object).await?));
            }
        }
        let stock = match ceph {
            None => None,
            Some(ceph) => Some(Stock::new(ceph, &client, &targets).await?),
        };
        Ok(Self { cluster, client, promises, places, stock })
    }

    /// Measures all sides, in turns, until there are enough rounds with little stolen time.
    async fn measure(&self, setup: &Setup, sides: &[Side]) -> Result<Measured> {
        let mut measured = Measured::new(self.promises, sides);
        for round in 0..setup.rounds * TRIES {
            let then = ProcessorTimes::now()?;
            let mut tallies = vec![];
            for side in in_turn(round, sides.to_vec()) {
                note(&format!("round {}: {}", round + 1, side.name()));
                let places = self.turn_to(side).await?;
                tallies.push((side, play(places, self.promises.rates, setup.span).await?));
            }
            let stolen = ProcessorTimes::now()?.stolen_since(then);
            if stolen > MOST_STOLEN {
                measured.discard();
                note(&format!("discarded: {:.1}% of the time was stolen", stolen * 100.0));
                continue;
            }
            measured.add(tallies);
            if measured.rounds() == setup.rounds {
                return Ok(measured);
            }
        }
        let most = MOST_STOLEN * 100.0;
        Err(Error::exhausted(format!(
            "in too many rounds more than {most}% of the time was stolen"
        ))
        .hint("measure when other machines on this host do less"))
    }

    /// Makes the cluster serve as on this side. Returns the objects that the tenants write there.
    async fn turn_to(&self, side: Side) -> Result<&WriteTargets> {
        self.client.slos().enforce(side == Side::Enforced).await?;
        let Some(stock) = &self.stock else { return Ok(&self.places) };
        if tokio::task::block_in_place(|| stock.ceph.queue_as(side.op_queue()))? {
            wait_until_ready(&stock.places).await?;
            wait_until_ready(&self.places).await?;
        }
        match side {
            Side::Stock(_) => Ok(&stock.places),
            Side::Enforced | Side::Unenforced => Ok(&self.places),
        }
    }
}

impl Stock {
    async fn new(ceph: OwnCeph, client: &Cluster, targets: &SloTargets) -> Result<Self> {
        // A pool of nacre is a RADOS namespace, in which objects have the same names as in nacre.
        // So with a pool of this name, nacre can tell which OSD serves an object that is written
        // without nacre.
        client.create_pool(&PoolName::new(STOCK)?).await?;
        let mut places = WriteTargets::default();
        for ((tenant, of_each), places) in TENANTS.iter().zip(OBJECTS).zip(&mut places) {
            let own = PlainClient::connect(ceph.options(), STOCK).await?;
            let objects = objects(targets, STOCK, tenant.name, of_each).await?;
            let names = objects.into_iter().map(|object| object.name.to_string());
            places.extend(names.map(|name| WriteTarget::Rados(own.clone(), name)));
        }
        Ok(Self { ceph, places })
    }
}

async fn profile(
    targets: &SloTargets,
    client: &Cluster,
) -> Result<Vec<(TargetName, StoredProfile)>> {
    let profiling = targets.begin_profile(PROFILE_TIME).await?;
    let measured = profiling.measure(|what| note(&format!("measuring {what}"))).await;
    profiling.finish().await?;
    let profiles = measured?;
    client.slos().set_profiles(&profiles).await?;
    for (target, stored) in &profiles {
        let most = |bytes| 1.0 / stored.profile.work_seconds(nacre_qos::IoKind::Write, bytes);
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

fn tell(promises: &Promises) {
    let told = TENANTS.iter().zip(promises.rates).map(|(tenant, rate)| {
        let millis = promises.slo_seconds(tenant) * 1e3;
        format!(
            "{}: {millis:.0} ms for {rate:.0} writes of {} B a second",
            tenant.name, tenant.bytes
        )
    });
    note(&format!(
        "admitted; all SLOs are {:.2} times those of the thesis: {}",
        promises.scale,
        told.collect::<Vec<_>>().join("; ")
    ));
}

/// Returns `of_each` objects of each target, ordered so that neighbours are on different targets.
async fn objects(
    targets: &SloTargets,
    pool: &str,
    prefix: &str,
    of_each: usize,
) -> Result<Vec<ObjectId>> {
    let by_target = targets.objects(&PoolName::new(pool)?, prefix, of_each).await?;
    let rows = (0..of_each).map(|row| by_target.values().filter_map(move |own| own.get(row)));
    Ok(rows.flatten().cloned().collect())
}

/// Waits until every object can be written.
async fn wait_until_ready(places: &WriteTargets) -> Result<()> {
    let clock = SystemClock::default();
    let deadline = clock.monotonic() + READY_PATIENCE;
    for place in places.iter().flatten() {
        while let Err(error) = place.write(bytes::Bytes::from_static(b"ready")).await {
            if clock.monotonic() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(READY_PAUSE).await;
        }
    }
    Ok(())
}
