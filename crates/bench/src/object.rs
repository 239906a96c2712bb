//! `object`: durable writes, reads and map sets of small objects, in process and through the wire.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nacre::{Cluster, Object, RoleName};
use nacre_clock::{Clock, Random, SystemClock};
use nacre_node::LocalCluster;
use nacre_object::Result;

use crate::bare_tree::{self, BareTrees};
use crate::bench::Setup;
use crate::cpu_micros::CpuMicros;
use crate::figure::{Better, Figure};
use crate::group_commit::Writers;
use crate::load;
use crate::load::{Runs, median};
use crate::processes::Processes;
use crate::raw_file::{self, AtItsEnd};
use crate::redis_server::{RedisServer, failed};
use crate::scratch::BesideRedis;
use crate::wire::{self, Exchange, Wire};

const WORKERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
/// Objects that are written and read, and keys of Redis.
const OBJECTS: u64 = 10_000;
/// The name of the side that is measured.
const NACRE: &str = "nacre";
/// The aim for the 99th percentile of the latency: at most 1.2 times that of Redis.
const P99_AIM: f64 = 1.0 / 1.2;
/// The aim for the CPU time of a durable write of the smallest size, in client and server together.
const CPU_AIM_MICROS: f64 = 25.0;
/// Keys of each worker's map.
const MAP_KEYS: u64 = 1000;

/// Baselines that do no more than the least necessary work.
const LIMITS: [&str; 1] = [bare_tree::NAME];
const LIMITS_BEHIND_WIRE: [&str; 3] =
    [wire::NAME, raw_file::NAME_BEHIND_WIRE, bare_tree::NAME_BEHIND_WIRE];

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Replace a whole object; `SET`.
    Write,
    /// Read a whole object; `GET`.
    Read,
    /// Set a key of the worker's object's map; `HSET`.
    MapSet,
}

impl Work {
    const ALL: [Work; 3] = [Self::Write, Self::Read, Self::MapSet];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::MapSet => "map set",
        }
    }

    fn redis_name(self) -> &'static str {
        match self {
            Self::Write => "Redis SET, appendfsync always",
            Self::Read => "Redis GET",
            Self::MapSet => "Redis HSET, appendfsync always",
        }
    }

    /// How many there are of what it changes.
    fn keys(self) -> u64 {
        match self {
            Self::Write | Self::Read => OBJECTS,
            Self::MapSet => MAP_KEYS * WORKERS as u64,
        }
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let both = BesideRedis::start(setup).await?;
    let (folder, redis) = (both.folder.path(), &both.redis);
    let remote = both.cluster.client().await?;
    let local = LocalCluster::embedded(folder.join("embedded")).await?;
    let wire = Wire::to(&both.cluster, RoleName::Storage)?;
    let nodes = both.cluster.processes();
    let trees = BareTrees::create(&folder.join("trees"))?;
    for size in SIZES {
        for work in Work::ALL {
            if !setup.wants(&format!("{} {size} B", work.name())) {
                continue;
            }
            let beside = Beside { wire: &wire, trees: &trees, folder, redis, nodes: &nodes };
            let sides = Sides { local: &local, remote: &remote, beside, size, work };
            sides.measure(setup, report).await?;
        }
    }
    both.stop().await;
    Ok(())
}

/// What is measured beside nacre.
struct Beside<'a> {
    wire: &'a Wire,
    trees: &'a BareTrees,
    folder: &'a Path,
    redis: &'a RedisServer,
    /// The processes of the cluster.
    nodes: &'a Processes,
}

struct Sides<'a> {
    local: &'a Cluster,
    remote: &'a Cluster,
    beside: Beside<'a>,
    size: usize,
    work: Work,
}

/// For each side, by its name, the values of all rounds: rates, or CPU times of an operation.
type Rates = BTreeMap<&'static str, Vec<f64>>;

impl Sides<'_> {
    async fn measure(&self, setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
        let (mut local, mut remote, mut theirs) = (vec![], Runs::default(), Rates::new());
        let (mut redis, mut cpu) = (Runs::default(), Rates::new());
        let (work, size, span) = (self.work, self.size, setup.span);
        let Beside { nodes, redis: server, .. } = &self.beside;
        for _ in 0..setup.rounds {
            local.push(nacre(self.local, work, size, span, &Processes::with_ids([])).await?.0.rate);
            let (outcome, micros) = nacre(self.remote, work, size, span, nodes).await?;
            remote.push(outcome);
            cpu.entry(NACRE).or_default().push(micros);
            let (outcome, micros) = redis_side(server, work, size, span).await?;
            redis.push(outcome);
            cpu.entry(work.redis_name()).or_default().push(micros);
            self.measure_others(span, &mut theirs, &mut cpu).await?;
        }
        theirs.insert(work.redis_name(), vec![redis.rate()]);
        let places = [
            ("in process", median(local), &LIMITS[..]),
            ("through the wire", remote.rate(), &LIMITS_BEHIND_WIRE[..]),
        ];
        for (place, ours, limits) in places {
            let name = format!("{} {} B, {WORKERS} workers, {place}", self.work.name(), self.size);
            let aims = [(raw_file::NAME, Some(0.5)), (self.work.redis_name(), Some(1.0))];
            for (baseline, aim) in aims.into_iter().chain(limits.iter().map(|name| (*name, None))) {
                let Some(theirs) = theirs.get(baseline) else { continue };
                let of = ("object", name.clone(), "ops/s");
                let baseline = (baseline, median(theirs.clone()));
                let figure = Figure::new(of, Better::Higher, ours, baseline);
                report(aim.into_iter().fold(figure, Figure::aiming_at));
            }
        }
        let name = format!("{} {size} B, {WORKERS} workers, through the wire", work.name());
        let of = |what: &str| ("object", format!("{name}, {what}"), "us");
        let baseline = (work.redis_name(), redis.p99_micros());
        let p99 = Figure::new(of("latency p99"), Better::Lower, remote.p99_micros(), baseline);
        let aims = work != Work::Read;
        report(if aims { p99.aiming_at(P99_AIM) } else { p99 });
        let own = median(cpu.remove(NACRE).unwrap_or_default());
        let cpu_beside =
            |baseline| Figure::new(of("CPU of client and server"), Better::Lower, own, baseline);
        for (baseline, micros) in cpu {
            report(cpu_beside((baseline, median(micros))));
        }
        if (work, size) == (Work::Write, SIZES[0]) {
            report(cpu_beside(("the aim", CPU_AIM_MICROS)).aiming_at(1.0));
        }
        Ok(())
    }

    /// Measures the baselines other than Redis once. Adds the CPU time of the raw file behind the wire
    /// to `cpu`.
    async fn measure_others(
        &self,
        span: Duration,
        rates: &mut Rates,
        cpu: &mut Rates,
    ) -> Result<()> {
        let (work, size) = (self.work, self.size);
        let Beside { wire, trees, folder, nodes, .. } = self.beside;
        let mut add = |name, rate| rates.entry(name).or_default().push(rate);
        if work == Work::Read {
            add(wire::NAME, wire::rate(&[wire.getting(size)], WORKERS, span).await?);
            return Ok(());
        }
        let first = [wire.sending(size)];
        let behind = raw_file::behind(folder, AtItsEnd::StartsOver, &first, WORKERS, size, span);
        add(raw_file::NAME, raw_file::run(folder, WORKERS, size, span).await?);
        let (rate, micros) = with_cpu(nodes, behind, |rate| *rate).await?;
        add(raw_file::NAME_BEHIND_WIRE, rate);
        cpu.entry(raw_file::NAME_BEHIND_WIRE).or_default().push(micros);
        let tree_rate = async |exchanges: &[Exchange]| {
            let tree = trees.tree(&format!("{}-{size}", work.name().replace(' ', "-")))?;
            let writers = Writers { count: WORKERS, size, keys: work.keys(), exchanges };
            writers.rate(tree, span).await
        };
        add(bare_tree::NAME, tree_rate(&[]).await?);
        add(bare_tree::NAME_BEHIND_WIRE, tree_rate(&first).await?);
        Ok(())
    }
}

/// Adds the CPU time of each operation in the client and in the servers together to a measurement,
/// in microseconds. The rate after the warm-up counts for the whole measurement.
async fn with_cpu<T>(
    servers: &Processes,
    measuring: impl Future<Output = Result<T>>,
    rate: impl FnOnce(&T) -> f64,
) -> Result<(T, f64)> {
    let clock = SystemClock::default();
    let (began, before) = (clock.monotonic(), CpuMicros::now(Some(servers))?);
    let measured = measuring.await?;
    let operations = rate(&measured) * (clock.monotonic() - began).as_secs_f64();
    let each = CpuMicros::now(Some(servers))?.each_since(&before, operations.max(1.0) as u64);
    Ok((measured, each.servers + each.client))
}

async fn nacre(
    cluster: &Cluster,
    work: Work,
    size: usize,
    span: Duration,
    nodes: &Processes,
) -> Result<(load::Outcome, f64)> {
    let pool = cluster.pool("data").await?;
    let name = |n: u64| format!("object-{size}-{n}");
    let objects = (0..OBJECTS).map(|n| pool.object(&name(n))).collect::<Result<Vec<_>>>()?;
    if work == Work::Read {
        for chunk in objects.chunks(WORKERS) {
            let data = || vec![7; size];
            futures::future::try_join_all(chunk.iter().map(|one| one.write_full(data()))).await?;
        }
    }
    let measuring = load::run(WORKERS, span, |worker| {
        let (objects, mut random) = (objects.clone(), Random::seeded(worker as u64));
        let own = pool.object(&format!("map-{size}-{worker}"));
        move |_| {
            let object = objects[random.below(OBJECTS) as usize].clone();
            let (own, key) = (own.clone(), random.below(MAP_KEYS));
            async move { once(work, &object, &own?, key, size).await }
        }
    });
    with_cpu(nodes, measuring, |outcome| outcome.rate).await
}

async fn once(work: Work, object: &Object, own: &Object, key: u64, size: usize) -> Result<()> {
    match work {
        Work::Write => object.write_full(vec![7; size]).await,
        Work::Read => object.read(0, size as u64).await.map(drop),
        Work::MapSet => own.map_set(key.to_be_bytes().to_vec(), vec![7; size]).await,
    }
}

async fn redis_side(
    redis: &RedisServer,
    work: Work,
    size: usize,
    span: Duration,
) -> Result<(load::Outcome, f64)> {
    let connections = redis.connections(WORKERS).await?;
    if work == Work::Read {
        let mut connection = connections[0].clone();
        for n in 0..OBJECTS {
            let mut set = redis::cmd("SET");
            set.arg(format!("object-{size}-{n}")).arg(vec![7u8; size]);
            set.query_async::<()>(&mut connection).await.map_err(failed)?;
        }
    }
    let measuring = load::run(WORKERS, span, |worker| {
        let (connection, mut random) = (connections[worker].clone(), Random::seeded(worker as u64));
        move |_| {
            let object = format!("object-{size}-{}", random.below(OBJECTS));
            let key = random.below(MAP_KEYS).to_be_bytes();
            let mut command = redis::Cmd::new();
            match work {
                Work::Write => command.arg("SET").arg(object).arg(vec![7u8; size]),
                Work::Read => command.arg("GET").arg(object),
                Work::MapSet => {
                    let map = format!("map-{size}-{worker}");
                    command.arg("HSET").arg(map).arg(&key).arg(vec![7u8; size])
                }
            };
            let mut connection = connection.clone();
            async move {
                let answer = command.query_async::<redis::Value>(&mut connection).await;
                answer.map(drop).map_err(failed)
            }
        }
    });
    with_cpu(&redis.processes(), measuring, |outcome| outcome.rate).await
}
