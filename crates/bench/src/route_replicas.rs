//! `route-replicas`: how many reads of hot objects a cluster serves when a routing rule lets reads
//! go to copies (the replica set of the sRoute paper, section 5.2), beside reads that all go to the
//! target which holds the objects.
//!
//! A second figure is about objects that are written all the time: reads of copies to which a rule
//! with `all` applies the writes, beside a rule with `one`, whose copies each write makes useless.
//!
//! The objects lie on one of three targets. A second target has copies. Every target is limited to
//! a rate far below that of this machine's processors, so that the targets are the limit. The limit
//! is that of a simulated device, because a real disk would serve hot objects from memory.
//!
//! On Ceph the targets are OSDs of a cluster that the bench starts, without replicas. The simulated
//! devices are in the gateway through which all IO passes.

use std::time::Duration;

use futures::future::{try_join, try_join_all};
use nacre::Object;
use nacre_clock::{Clock, SystemClock};
use nacre_node::RouteStatus;
use nacre_object::{Error, ObjectId, Result, TargetName};
use nacre_terminal::out::note;

use crate::bench::Setup;
use crate::block_reads::{OBJECT_BYTES, READ_BYTES, content, read_blocks};
use crate::figure::{Better, Figure};
use crate::load::{self, in_turn, median};
use crate::route_recover::nacre;
use crate::target_bed::TargetBed;

const TARGETS: usize = 3;
const POOL: &str = "data";
const OBJECTS: usize = 16;
/// So many of them are written in the second figure, and so often a second.
const WRITTEN: usize = 4;
const WRITES_A_SECOND: f64 = 20.0;
/// Enough readers to keep both targets busy.
const READERS: usize = 64;
/// How many requests a second each target serves.
const DEVICE_RATE: f64 = 1000.0;
/// The same on Ceph: OSDs need more of the processors for each request.
const DEVICE_RATE_ON_CEPH: f64 = 200.0;
/// How long the copies may take until they are current.
const PATIENCE: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(100);
/// What the paper reports for two replicas. Twice the rate is the ideal.
const AIM: f64 = 1.63;

/// Lets reads go to copies.
const READS: &str = "* r data/hot* -> one";
/// Applies writes to the copies too.
const READS_AND_WRITES: &str = "* rw data/hot* -> all";

/// From where reads are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Primary,
    Copies,
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = TargetBed::start_nodes(setup, TARGETS).await?;
    report_all("route-replicas", &measured(setup, bed).await?, report);
    Ok(())
}

/// Measures the reads alone on a separate Ceph cluster, because gateways apply no writes to copies.
pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let bed = TargetBed::start_on_ceph(setup, TARGETS).await?;
    report_all("route-replicas on Ceph", &measured(setup, bed).await?, report);
    Ok(())
}

/// Reads a second.
struct Measured {
    /// From the primary only, and from both copies.
    only_read: [f64; 2],
    /// Of objects that are written too, with `one` and with `all`. `None` on Ceph.
    written: Option<[f64; 2]>,
}

fn report_all(bench: &'static str, measured: &Measured, report: &mut dyn FnMut(Figure)) {
    let [primary, copies] = measured.only_read;
    let name = format!("reads of {READ_BYTES} B of {OBJECTS} objects, copies on 2 targets");
    let of = (bench, name, "reads/s");
    report(Figure::new(of, Better::Higher, copies, ("the primary only", primary)).aiming_at(AIM));
    let Some([one, all]) = measured.written else { return };
    let name = format!(
        "reads of {READ_BYTES} B of {WRITTEN} objects, each written {WRITES_A_SECOND} times a second, with all"
    );
    report(Figure::new((bench, name, "reads/s"), Better::Higher, all, ("with one", one)));
}

async fn measured(setup: &Setup, bed: TargetBed) -> Result<Measured> {
    let measured = measure(setup, &bed).await;
    bed.stop().await;
    measured
}

/// The target that holds the objects, and the one with copies.
struct Targets {
    home: TargetName,
    other: TargetName,
}

impl Targets {
    /// Chooses them, and limits the devices of all targets.
    async fn choose(bed: &TargetBed) -> Result<Self> {
        let all = bed.targets(POOL).await?;
        let rate = if bed.is_on_ceph() { DEVICE_RATE_ON_CEPH } else { DEVICE_RATE };
        for target in &all {
            bed.limit(target, rate).await?;
        }
        match &all[..] {
            [home, other, ..] => Ok(Self { home: home.clone(), other: other.clone() }),
            _ => Err(Error::not_found("the cluster has too few targets for this bench")),
        }
    }
}

async fn measure(setup: &Setup, bed: &TargetBed) -> Result<Measured> {
    let targets = Targets::choose(bed).await?;
    let objects = hot_objects(bed, &targets.home).await?;
    let (mut only_read, mut written) = ([vec![], vec![]], [vec![], vec![]]);
    for round in 0..setup.rounds {
        for side in in_turn(round, [Side::Primary, Side::Copies]) {
            if side == Side::Copies {
                put_rule(setup, bed, &targets, READS).await?;
                until_copied(setup, bed, &objects).await?;
            }
            let rate = read_all(setup, &objects).await?;
            note(&format!("{side:?}: {rate:.0} reads a second"));
            only_read[side as usize].push(rate);
            if side == Side::Copies {
                nacre(setup, bed.folder(), &["route", "rm", "hot"]).await?;
            }
        }
        if bed.is_on_ceph() {
            continue;
        }
        for (side, rule) in in_turn(round, [(0, READS), (1, READS_AND_WRITES)]) {
            put_rule(setup, bed, &targets, rule).await?;
            let objects = &objects[..WRITTEN];
            until_copied(setup, bed, objects).await?;
            let writes = write_all(setup, objects);
            let (rate, _) = try_join(read_all(setup, objects), writes).await?;
            written[side].push(rate);
            nacre(setup, bed.folder(), &["route", "rm", "hot"]).await?;
        }
    }
    let written = (!bed.is_on_ceph()).then(|| written.map(median));
    Ok(Measured { only_read: only_read.map(median), written })
}

/// Writes objects that belong to the target `home`.
async fn hot_objects(bed: &TargetBed, home: &TargetName) -> Result<Vec<Object>> {
    let mut objects = vec![];
    for number in 0_u64.. {
        let id: ObjectId = format!("{POOL}/hot{number}").parse()?;
        if bed.locate(&id).await? != *home {
            continue;
        }
        let object = bed.client.object(&id).await?;
        object.write_full(content(OBJECT_BYTES)).await?;
        objects.push(object);
        if objects.len() == OBJECTS {
            break;
        }
    }
    Ok(objects)
}

/// Puts a rule that begins with `rule` and names both targets.
async fn put_rule(setup: &Setup, bed: &TargetBed, targets: &Targets, rule: &str) -> Result<()> {
    let rules = bed.folder().join("rules");
    let Targets { home, other } = targets;
    let text = format!(
        "nacre routes 1\napplication hot on {home}\n  {rule} {home},{other} least-loaded\n"
    );
    tokio::fs::write(&rules, text).await.map_err(|error| {
        Error::unavailable(format!("cannot write {}: {error}", rules.display()))
    })?;
    nacre(setup, bed.folder(), &["route", "put", &rules.to_string_lossy()]).await.map(drop)
}

/// Reads the objects until all of them have a current copy.
async fn until_copied(setup: &Setup, bed: &TargetBed, objects: &[Object]) -> Result<()> {
    let clock = SystemClock::default();
    let began = clock.monotonic();
    loop {
        try_join_all(objects.iter().map(|object| object.read(0, 1))).await?;
        let status = nacre(setup, bed.folder(), &["route", "status", "--json"]).await?;
        let status: Vec<RouteStatus> = serde_json::from_str(&status).map_err(|error| {
            Error::corrupt(format!("the status of routes cannot be read: {error}"))
        })?;
        let current: usize = status.iter().map(|one| one.copies.current).sum();
        if current == objects.len() {
            return Ok(());
        }
        if clock.monotonic() - began > PATIENCE {
            return Err(Error::unavailable(format!(
                "only {current} of {} copies are current after {PATIENCE:?}",
                objects.len()
            )));
        }
        tokio::time::sleep(REST).await;
    }
}

/// Reads objects at random, and returns the reads a second.
async fn read_all(setup: &Setup, objects: &[Object]) -> Result<f64> {
    Ok(read_blocks(READERS, setup.span, objects).await?.rate)
}

/// Writes each object [`WRITES_A_SECOND`] times a second, and returns the writes a second.
async fn write_all(setup: &Setup, objects: &[Object]) -> Result<f64> {
    let interval = Duration::from_secs_f64(1.0 / (WRITES_A_SECOND * objects.len() as f64));
    let outcome = load::run_paced(objects.len(), setup.span, interval, |worker| {
        let object = objects[worker].clone();
        move |_| {
            let object = object.clone();
            async move { object.write(0, content(READ_BYTES as usize)).await }
        }
    });
    Ok(outcome.await?.rate)
}
