//! `route-caches`: what tenants gain if each has a share of a node's cache, chosen by miss-ratio
//! curves, beside one cache of the same size that all tenants use together (sRoute, section 5.3).
//!
//! Two tenants read objects of one target. The *squeezed* tenant reads pages of a small working set.
//! The *greedy* one reads long pieces of many more bytes than the cache can keep, with more requests
//! in flight. In a common cache it displaces the pages of the squeezed tenant. With shares, `nacre
//! route cache divide` reads the curves of both tenants, and gives each what saves the most misses.
//!
//! The target simulates a device that serves a given number of requests a second, so reads that the
//! operating system has in memory count as reads of the device. Each side begins with an empty
//! cache, and has the same time to warm up.
//!
//! On Ceph the target is the OSD of a cluster that the bench starts, and the cache and the simulated
//! device are in the gateway through which all IO passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nacre::{Object, Sessions};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_node::{CacheDivision, CacheReport, CacheSettings, ROUTE_SERVICE, RouteMap};
use nacre_object::{Error, PoolName, Result, TargetName, TenantName};
use nacre_terminal::out::note;
use tokio::task::JoinSet;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{in_turn, median};
use crate::route_recover::nacre;
use crate::target_bed::TargetBed;

/// A tenant that reads.
#[derive(Debug, Clone, Copy)]
struct Reader {
    /// Its name, and that of its pool.
    name: &'static str,
    /// How many objects it reads, each of [`OBJECT_BYTES`].
    objects: u64,
    /// The bytes of a read.
    bytes: u64,
    /// How many reads it has in flight.
    in_flight: usize,
}

/// The squeezed tenant and the greedy one.
const READERS: [Reader; 2] = [
    Reader { name: "squeezed", objects: 8, bytes: 4096, in_flight: 8 },
    Reader { name: "greedy", objects: 128, bytes: 64 << 10, in_flight: 16 },
];
const OBJECT_BYTES: u64 = 1 << 20;
/// The memory of the cache. All that the squeezed tenant reads would fit into it, but only a small
/// part of what the two tenants read together.
const CACHE_BYTES: u64 = 24 << 20;
/// How many requests a second the simulated device serves.
const DEVICE_RATE: f64 = 1000.0;
/// How many requests a second the simulated device serves on Ceph. They are fewer, because an OSD needs
/// more processor time for a request.
const DEVICE_RATE_ON_CEPH: f64 = 250.0;
/// On Ceph the objects are so many times fewer, and the cache so many times smaller. So it takes as long as
/// on nodes to read all of them.
const CEPH_SCALE: u64 = 4;
/// How long both tenants read before the cache is divided, and again before the measurement.
const WARM_UP: Duration = Duration::from_secs(15);
/// How many targets there are.
const TARGETS: usize = 1;
/// A node answers in this time.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a node may take to apply new settings.
const APPLY_PATIENCE: Duration = Duration::from_secs(10);
const APPLY_PAUSE: Duration = Duration::from_millis(50);
/// The gains of the paper: of both tenants together, and of the squeezed one.
const AIMS: [f64; 2] = [1.57, 2.0];

const _: () = assert!(READERS[0].objects * OBJECT_BYTES < CACHE_BYTES);
const _: () = assert!(READERS[1].objects * OBJECT_BYTES > 4 * CACHE_BYTES);

/// How the cache is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Shared,
    Divided,
}

/// The reads a second of each tenant.
type Rates = [f64; READERS.len()];

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = TargetBed::start_nodes(setup, TARGETS).await?;
    report_all("route-caches", setup, bed, report).await
}

/// Measures the same on a separate Ceph cluster.
pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = TargetBed::start_on_ceph(setup, TARGETS).await?;
    report_all("route-caches on Ceph", setup, bed, report).await
}

/// Measures, and reports figures of the bench with this name.
async fn report_all(
    bench: &'static str,
    setup: &Setup,
    bed: TargetBed,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let measured = measure(setup, &bed).await;
    bed.stop().await;
    let [shared, divided] = measured?;
    let rate = |rates: &[Rates], of: fn(&Rates) -> f64| median(rates.iter().map(of).collect());
    let figure = |name: &str, of: fn(&Rates) -> f64| {
        let head = (bench, format!("reads a second, {name}"), "IO/s");
        let baseline = ("one cache of the same size", rate(&shared, of));
        Figure::new(head, Better::Higher, rate(&divided, of), baseline)
    };
    report(figure("both tenants", |rates| rates.iter().sum()).aiming_at(AIMS[0]));
    report(figure("the squeezed tenant", |rates| rates[0]).aiming_at(AIMS[1]));
    report(figure("the greedy tenant", |rates| rates[1]));
    Ok(())
}

/// The rates of each round: with a common cache, and with shares.
async fn measure(setup: &Setup, bed: &TargetBed) -> Result<[Vec<Rates>; 2]> {
    let tenants = Tenants::new(bed).await?;
    let (mut shared, mut divided) = (vec![], vec![]);
    for round in 0..setup.rounds {
        for side in in_turn(round, [Side::Shared, Side::Divided]) {
            let rates = tenants.measure(side, setup).await?;
            match side {
                Side::Shared => shared.push(rates),
                Side::Divided => divided.push(rates),
            }
        }
    }
    Ok([shared, divided])
}

/// The objects of both tenants.
struct Tenants<'a> {
    bed: &'a TargetBed,
    sessions: Sessions,
    target: TargetName,
    /// The memory of the cache.
    cache_bytes: u64,
    objects: [Vec<Object>; READERS.len()],
}

impl<'a> Tenants<'a> {
    async fn new(bed: &'a TargetBed) -> Result<Self> {
        let client = &bed.client;
        let scale = if bed.is_on_ceph() { CEPH_SCALE } else { 1 };
        let sessions = Sessions::new(bed.cluster.supervisor.cluster())?;
        let mut objects = [vec![], vec![]];
        for (reader, objects) in READERS.iter().zip(&mut objects) {
            let pool = PoolName::new(reader.name)?;
            client.create_pool(&pool).await?;
            client.slos().set_pool(&pool, Some(&TenantName::new(reader.name)?)).await?;
            // Each tenant has sessions of its own, so tenants do not wait for one another before
            // their reads reach the node.
            let own = bed.cluster.client().await?;
            for number in 0..reader.objects / scale {
                let object = own.object(&format!("{pool}/{number}").parse()?).await?;
                object.write_full(Bytes::from(vec![number as u8; OBJECT_BYTES as usize])).await?;
                objects.push(object);
            }
        }
        let target = bed.targets(READERS[0].name).await?.into_iter().next();
        let target = target.ok_or_else(|| Error::not_found("the cluster has no target"))?;
        let rate = if bed.is_on_ceph() { DEVICE_RATE_ON_CEPH } else { DEVICE_RATE };
        bed.limit(&target, rate).await?;
        Ok(Self { bed, sessions, target, cache_bytes: CACHE_BYTES / scale, objects })
    }

    /// Sets the caches, and waits until the node applies that.
    async fn set(&self, settings: Option<&CacheSettings>) -> Result<()> {
        let epoch = RouteMap::new(self.bed.client.maps().clone()).set_caches(settings).await?;
        let clock = SystemClock::default();
        let deadline = clock.monotonic() + APPLY_PATIENCE;
        while self.report().await?.epoch < epoch {
            if clock.monotonic() > deadline {
                return Err(Error::unavailable("the node does not apply the settings of caches"));
            }
            tokio::time::sleep(APPLY_PAUSE).await;
        }
        Ok(())
    }

    async fn report(&self) -> Result<CacheReport> {
        let session = self.sessions.session(self.bed.node_of(&self.target))?;
        let answer = session.ask(ROUTE_SERVICE, "caches", Bytes::new(), NODE_TIMEOUT).await?;
        serde_json::from_slice(&answer).map_err(|cause| {
            Error::corrupt(format!("the report of caches cannot be read: {cause}"))
        })
    }

    async fn measure(&self, side: Side, setup: &Setup) -> Result<Rates> {
        let division = match side {
            Side::Shared => CacheDivision::Shared,
            Side::Divided => CacheDivision::Shares(BTreeMap::new()),
        };
        let pools = READERS.map(|reader| reader.name.to_owned()).to_vec();
        self.set(None).await?;
        self.set(Some(&CacheSettings { pools, bytes: self.cache_bytes, division })).await?;
        let load = Load::start(&self.objects);
        tokio::time::sleep(WARM_UP).await;
        if side == Side::Divided {
            let divided =
                nacre(setup, self.bed.folder(), &["route", "cache", "divide", "--json"]).await?;
            note(&format!("divided by the curves: {}", divided.trim()));
        }
        tokio::time::sleep(WARM_UP).await;
        let clock = SystemClock::default();
        let (began, before) = (clock.monotonic(), load.reads());
        tokio::time::sleep(setup.span).await;
        let (ended, after) = (clock.monotonic(), load.reads());
        load.stop().await?;
        let seconds = (ended - began).as_secs_f64();
        let rates: Rates =
            std::array::from_fn(|tenant| (after[tenant] - before[tenant]) as f64 / seconds);
        let told = READERS.iter().zip(rates).map(|(one, rate)| format!("{} {rate:.0}", one.name));
        note(&format!("{side:?}, reads a second: {}", told.collect::<Vec<_>>().join(", ")));
        Ok(rates)
    }
}

/// The reads of both tenants, until it is stopped.
struct Load {
    is_over: Arc<AtomicBool>,
    reads: [Arc<AtomicU64>; READERS.len()],
    workers: JoinSet<Result<()>>,
}

impl Load {
    fn start(objects: &[Vec<Object>; READERS.len()]) -> Self {
        let (is_over, mut workers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        let reads = [Arc::<AtomicU64>::default(), Arc::default()];
        for ((reader, objects), reads) in READERS.iter().zip(objects).zip(&reads) {
            for worker in 0..reader.in_flight {
                let (objects, reads) = (objects.clone(), Arc::clone(reads));
                let (is_over, reader) = (Arc::clone(&is_over), *reader);
                workers.spawn(async move {
                    let mut random = Random::seeded(worker as u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let Some(object) = random.pick(&objects) else { break };
                        let place = random.below(OBJECT_BYTES / reader.bytes) * reader.bytes;
                        object.read(place, reader.bytes).await?;
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                });
            }
        }
        Self { is_over, reads, workers }
    }

    fn reads(&self) -> [u64; READERS.len()] {
        std::array::from_fn(|tenant| self.reads[tenant].load(Ordering::Relaxed))
    }

    async fn stop(mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.workers.join_next().await {
            ended.map_err(|cause| Error::unavailable(format!("a reader failed: {cause}")))??;
        }
        Ok(())
    }
}
