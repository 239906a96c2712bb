//! `scale`: measures the same work at a small and at a large size, once for the number of clients,
//! once for objects, and once for the bytes of a pool. The baseline of each figure is the small
//! size in the same run.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::iter;
use nacre::{Cluster, Pool};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_object::{Error, Result};
use rustix::fs::statvfs;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::load::{self, Runs};
use crate::scratch::{self, ScratchCluster};

const CLIENTS: usize = 64;
const TARGETS: usize = 1;
const NODE: &str = "storage.0";
const SMALL_BYTES: usize = 128;
const LARGE_BYTES: usize = 1024 * 1024;
/// The interval from one write to the next, over all clients together. A single client can send at
/// this rate too. So the difference shows the cost of more clients, not of more load.
const INTERVAL: Duration = Duration::from_millis(1);
/// Objects written at the same time while a pool is filled.
const FILLING: usize = 64;
const FILLING_LARGE: usize = 8;
/// Workers whose latency is measured at both ends of objects and bytes.
const WORKERS: usize = 4;
/// The disk must have space for the pool twice: the engine moves payloads before it frees space.
const ROOM_FACTOR: u64 = 2;
/// Within 1.5 times the small end.
const AIM: f64 = 1.0 / 1.5;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    check_room(&setup.folder, setup.pool_bytes)?;
    if setup.wants("clients") {
        clients(setup, report).await?;
    }
    if setup.wants("objects") {
        grown(setup, "objects", setup.objects, SMALL_BYTES, report).await?;
    }
    if setup.wants("pool bytes") {
        let objects = setup.pool_bytes / LARGE_BYTES as u64;
        grown(setup, "pool bytes", objects, LARGE_BYTES, report).await?;
    }
    Ok(())
}

fn check_room(folder: &Path, pool_bytes: u64) -> Result<()> {
    let space = statvfs(folder).map_err(|error| Error::unavailable(error.to_string()))?;
    let (free, needed) = (space.f_bavail * space.f_frsize, pool_bytes * ROOM_FACTOR);
    if free >= needed {
        return Ok(());
    }
    Err(Error::exhausted(format!("{} has {free} bytes free, not {needed}", folder.display()))
        .hint("name another folder with --folder, or a smaller pool with --pool-gib"))
}

/// Compares one client with many clients, each with its own sessions. First all clients together
/// send at the same rate as the one client. Then each client sends as fast as it can.
async fn clients(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let mut pools = Vec::new();
    for _ in 0..CLIENTS {
        pools.push(cluster.client().await?.pool("data").await?);
    }
    let (mut one, mut many) = (Runs::default(), Runs::default());
    let (mut one_paced, mut many_paced) = (Runs::default(), Runs::default());
    let objects = CLIENTS as u64;
    for _ in 0..setup.rounds {
        one_paced.push(write(&pools[..1], 1, objects, setup.span, INTERVAL).await?);
        many_paced.push(write(&pools, CLIENTS, objects, setup.span, INTERVAL).await?);
        one.push(write(&pools[..1], 1, objects, setup.span, Duration::ZERO).await?);
        many.push(write(&pools, CLIENTS, objects, setup.span, Duration::ZERO).await?);
    }
    cluster.stop().await;
    let name = format!("{CLIENTS} clients, durable writes of {SMALL_BYTES} B");
    let rate = 1.0 / INTERVAL.as_secs_f64();
    let of = ("scale", format!("{name}, {rate}/s of them all, p99"), "us");
    let baseline = ("1 client", one_paced.p99_micros());
    report(Figure::new(of, Better::Lower, many_paced.p99_micros(), baseline).aiming_at(AIM));
    let of = ("scale", format!("{name}, as fast as they can"), "ops/s");
    report(Figure::new(of, Better::Higher, many.rate(), ("1 client", one.rate())));
    let of = ("scale", format!("{name}, as fast as they can, p99"), "us");
    report(Figure::new(of, Better::Lower, many.p99_micros(), ("1 client", one.p99_micros())));
    Ok(())
}

/// A pool of one object, and the same pool once it has grown.
async fn grown(
    setup: &Setup,
    what: &str,
    objects: u64,
    bytes: usize,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let client = cluster.client().await?;
    let small = End::measure(setup, &cluster, &client, 1).await?;
    fill(&client, objects, bytes).await?;
    let large = End::measure(setup, &cluster, &client, objects).await?;
    cluster.stop().await;
    let name = |of| format!("{what}: {objects} objects of {bytes} B, {of}");
    for (of, unit, ours, theirs) in [
        ("durable writes of 128 B, p99", "us", large.write_p99, small.write_p99),
        ("reads of 128 B, p99", "us", large.read_p99, small.read_p99),
        ("start-up after SIGKILL", "ms", large.start_millis, small.start_millis),
    ] {
        let baseline = ("1 object", theirs);
        let figure = Figure::new(("scale", name(of), unit), Better::Lower, ours, baseline);
        report(figure.aiming_at(AIM));
    }
    Ok(())
}

/// What one end measures.
struct End {
    write_p99: f64,
    read_p99: f64,
    start_millis: f64,
}

impl End {
    async fn measure(
        setup: &Setup,
        cluster: &ScratchCluster,
        client: &Cluster,
        objects: u64,
    ) -> Result<Self> {
        let pools = [client.pool("data").await?];
        let (mut writes, mut reads, mut starts) = (Runs::default(), Runs::default(), vec![]);
        for _ in 0..setup.rounds {
            writes.push(write(&pools, WORKERS, objects, setup.span, Duration::ZERO).await?);
            reads.push(read(&pools[0], objects, setup.span).await?);
            let clock = SystemClock::default();
            cluster.supervisor.kill(NODE, true).await?;
            let begin = clock.monotonic();
            cluster.supervisor.resume(NODE).await?;
            starts.push((clock.monotonic() - begin).as_secs_f64() * 1e3);
        }
        let (write_p99, read_p99) = (writes.p99_micros(), reads.p99_micros());
        Ok(Self { write_p99, read_p99, start_millis: median(starts) })
    }
}

fn name_of(object: u64) -> String {
    format!("scaled-{object}")
}

async fn write(
    pools: &[Pool],
    workers: usize,
    objects: u64,
    span: Duration,
    interval: Duration,
) -> Result<load::Outcome> {
    load::run_paced(workers, span, interval, |worker| {
        let (pool, mut random) =
            (pools[worker % pools.len()].clone(), Random::seeded(worker as u64));
        move |_| {
            let object = pool.object(&name_of(random.below(objects)));
            async move { object?.write(0, [7; SMALL_BYTES].to_vec()).await }
        }
    })
    .await
}

async fn read(pool: &Pool, objects: u64, span: Duration) -> Result<load::Outcome> {
    load::run(WORKERS, span, |worker| {
        let (pool, mut random) = (pool.clone(), Random::seeded(worker as u64));
        move |_| {
            let object = pool.object(&name_of(random.below(objects)));
            async move { object?.read(0, SMALL_BYTES as u64).await.map(drop) }
        }
    })
    .await
}

async fn fill(client: &Cluster, objects: u64, bytes: usize) -> Result<()> {
    let pool = client.pool("data").await?;
    let data = Bytes::from(vec![7; bytes]);
    let at_once = if bytes == LARGE_BYTES { FILLING_LARGE } else { FILLING };
    let writes = iter(0..objects).map(|n| {
        let (object, data) = (pool.object(&name_of(n)), data.clone());
        async move { object?.write_full(data).await }
    });
    let mut writes = writes.buffer_unordered(at_once);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}
