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

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use nacre::{Cluster, Object, RoleName};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_node::STORAGE_SERVICE;
use nacre_object::{Error, ObjectId, Result};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, in_turn, median};
use crate::route_recover::nacre;
use crate::scratch::{self, ScratchCluster};

const TARGETS: usize = 3;
/// The target that holds the objects.
const HOME: &str = "storage.0";
/// The target with copies.
const OTHER: &str = "storage.1";
const OBJECTS: usize = 16;
/// So many of them are written in the second figure, and so often a second.
const WRITTEN: usize = 4;
const WRITES_A_SECOND: f64 = 20.0;
const OBJECT_BYTES: usize = 64 * 1024;
const READ_BYTES: u64 = 4096;
/// Enough readers to keep both targets busy.
const READERS: usize = 64;
/// How many requests a second each target serves.
const DEVICE_RATE: u64 = 1000;
/// How long a node may take to set the limit of its device.
const NODE_TIME: Duration = Duration::from_secs(10);
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
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let measured = measure(setup, folder.path(), &cluster).await;
    cluster.stop().await;
    let Measured { only_read: [primary, copies], written: [one, all] } = measured?;
    let name = format!("reads of {READ_BYTES} B of {OBJECTS} objects, copies on 2 targets");
    let of = ("route-replicas", name, "reads/s");
    report(Figure::new(of, Better::Higher, copies, ("the primary only", primary)).aiming_at(AIM));
    let name = format!(
        "reads of {READ_BYTES} B of {WRITTEN} objects, each written {WRITES_A_SECOND} times a second, with all"
    );
    report(Figure::new(
        ("route-replicas", name, "reads/s"),
        Better::Higher,
        all,
        ("with one", one),
    ));
    Ok(())
}

/// Reads a second.
struct Measured {
    /// From the primary only, and from both copies.
    only_read: [f64; 2],
    /// Of objects that are written too, with `one` and with `all`.
    written: [f64; 2],
}

async fn measure(setup: &Setup, folder: &Path, cluster: &ScratchCluster) -> Result<Measured> {
    let client = cluster.client().await?;
    let objects = hot_objects(&client).await?;
    limit_devices(cluster, &client).await?;
    let (mut only_read, mut written) = ([vec![], vec![]], [vec![], vec![]]);
    for round in 0..setup.rounds {
        for side in in_turn(round, [Side::Primary, Side::Copies]) {
            if side == Side::Copies {
                put_rule(setup, folder, READS).await?;
                until_copied(setup, folder, &objects).await?;
            }
            let rate = read_all(setup, &objects).await?;
            only_read[side as usize].push(rate);
            if side == Side::Copies {
                nacre(setup, folder, &["route", "rm", "hot"]).await?;
            }
        }
        for (side, rule) in in_turn(round, [(0, READS), (1, READS_AND_WRITES)]) {
            put_rule(setup, folder, rule).await?;
            until_copied(setup, folder, &objects[..WRITTEN]).await?;
            let (objects, writes) = (&objects[..WRITTEN], write_all(setup, &objects[..WRITTEN]));
            let (rate, _) = try_join(read_all(setup, objects), writes).await?;
            written[side].push(rate);
            nacre(setup, folder, &["route", "rm", "hot"]).await?;
        }
    }
    Ok(Measured { only_read: only_read.map(median), written: written.map(median) })
}

/// Writes objects that belong to the target [`HOME`].
async fn hot_objects(client: &Cluster) -> Result<Vec<Object>> {
    let mut objects = vec![];
    for number in 0_u64.. {
        let id: ObjectId = format!("data/hot{number}").parse()?;
        if client.locate(&id).as_str() != HOME {
            continue;
        }
        let object = client.object(&id).await?;
        object.write_full(Bytes::from(vec![7; OBJECT_BYTES])).await?;
        objects.push(object);
        if objects.len() == OBJECTS {
            break;
        }
    }
    Ok(objects)
}

async fn limit_devices(cluster: &ScratchCluster, client: &Cluster) -> Result<()> {
    let transport = &client.log_env().sequencers;
    for entry in cluster.supervisor.cluster().with_role(RoleName::Storage) {
        let (node, rate) = (entry.node_name()?, Bytes::from(DEVICE_RATE.to_string()));
        transport.ask(&node, STORAGE_SERVICE, "limit", rate, NODE_TIME).await?;
    }
    Ok(())
}

async fn put_rule(setup: &Setup, folder: &Path, rule: &str) -> Result<()> {
    let rules = folder.join("rules");
    let text = format!(
        "nacre routes 1\napplication hot on {HOME}\n  {rule} {HOME},{OTHER} least-loaded\n"
    );
    tokio::fs::write(&rules, text).await.map_err(|error| {
        Error::unavailable(format!("cannot write {}: {error}", rules.display()))
    })?;
    nacre(setup, folder, &["route", "put", &rules.to_string_lossy()]).await.map(drop)
}

/// Reads the objects until all of them have a current copy.
async fn until_copied(setup: &Setup, folder: &Path, objects: &[Object]) -> Result<()> {
    let clock = SystemClock::default();
    let began = clock.monotonic();
    loop {
        try_join_all(objects.iter().map(|object| object.read(0, 1))).await?;
        let status = nacre(setup, folder, &["route", "status", "--json"]).await?;
        let status: serde_json::Value = serde_json::from_str(&status).map_err(|error| {
            Error::corrupt(format!("the status of routes cannot be read: {error}"))
        })?;
        let of_home =
            status.as_array().and_then(|all| all.iter().find(|one| one["target"] == HOME));
        let current = of_home.and_then(|one| one["copies"]["current"].as_u64());
        if current == Some(objects.len() as u64) {
            return Ok(());
        }
        if clock.monotonic() - began > PATIENCE {
            return Err(Error::unavailable(format!(
                "only {} of {} copies are current after {PATIENCE:?}",
                current.unwrap_or(0),
                objects.len()
            )));
        }
        tokio::time::sleep(REST).await;
    }
}

/// Reads objects at random, and returns the reads a second.
async fn read_all(setup: &Setup, objects: &[Object]) -> Result<f64> {
    let blocks = OBJECT_BYTES as u64 / READ_BYTES;
    let outcome = load::run(READERS, setup.span, |worker| {
        let (objects, mut random) = (objects.to_vec(), Random::seeded(worker as u64));
        move |_| {
            let object = objects[random.below(objects.len() as u64) as usize].clone();
            let offset = READ_BYTES * random.below(blocks);
            async move {
                let data = object.read(offset, READ_BYTES).await?;
                match data.len() as u64 == READ_BYTES && data.iter().all(|byte| *byte == 7) {
                    true => Ok(()),
                    false => Err(Error::corrupt("a read returned other bytes").on(object.id())),
                }
            }
        }
    });
    Ok(outcome.await?.rate)
}

/// Writes each object [`WRITES_A_SECOND`] times a second, and returns the writes a second.
async fn write_all(setup: &Setup, objects: &[Object]) -> Result<f64> {
    let interval = Duration::from_secs_f64(1.0 / (WRITES_A_SECOND * objects.len() as f64));
    let outcome = load::run_paced(objects.len(), setup.span, interval, |worker| {
        let object = objects[worker].clone();
        move |_| {
            let object = object.clone();
            async move { object.write(0, Bytes::from(vec![7; READ_BYTES as usize])).await }
        }
    });
    Ok(outcome.await?.rate)
}
