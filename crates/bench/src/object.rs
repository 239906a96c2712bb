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
use crate::load::median;
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

/// For each side, by its name, the values of all rounds.
type Values = BTreeMap<&'static str, Vec<f64>>;

#[derive(Default)]
struct Measured {
    /// Operations a second.
    rates: Values,
    /// 99th percentiles of the latency, in microseconds.
    p99s: Values,
    /// CPU times of an operation in client and servers, in microseconds.
    cpu: Values,
}

impl Measured {
    fn add(&mut self, side: &'static str, outcome: &load::Outcome) {
        self.rates.entry(side).or_default().push(outcome.rate);
        self.p99s.entry(side).or_default().push(outcome.latency_micros(99.0));
    }

    fn add_with_cpu(&mut self, side: &'static str, (outcome, cpu): &(load::Outcome, f64)) {
        self.add(side, outcome);
        self.cpu.entry(side).or_default().push(*cpu);
    }
}

/// Takes the middle value of each side.
fn medians(values: Values) -> BTreeMap<&'static str, f64> {
    values.into_iter().map(|(side, values)| (side, median(values))).collect()
}

impl Sides<'_> {
    async fn measure(&self, setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
        let (work, size, span) = (self.work, self.size, setup.span);
        let Beside { nodes, redis, .. } = &self.beside;
        let (mut local, mut measured) = (vec![], Measured::default());
        for _ in 0..setup.rounds {
            local.push(nacre(self.local, work, size, span, &Processes::with_ids([])).await?.0.rate);
            measured.add_with_cpu(NACRE, &nacre(self.remote, work, size, span, nodes).await?);
            let of_redis = redis_side(redis, work, size, span).await?;
            measured.add_with_cpu(work.redis_name(), &of_redis);
            self.measure_others(span, &mut measured).await?;
        }
        let rates = medians(measured.rates);
        let places = [
            ("in process", median(local), &LIMITS[..]),
            ("through the wire", rates[NACRE], &LIMITS_BEHIND_WIRE[..]),
        ];
        for (place, ours, limits) in places {
            let name = format!("{} {} B, {WORKERS} workers, {place}", self.work.name(), self.size);
            let aims = [(raw_file::NAME, Some(0.5)), (self.work.redis_name(), Some(1.0))];
            for (baseline, aim) in aims.into_iter().chain(limits.iter().map(|name| (*name, None))) {
                let Some(theirs) = rates.get(baseline) else { continue };
                let of = ("object", name.clone(), "ops/s");
                let baseline = (baseline, *theirs);
                let figure = Figure::new(of, Better::Higher, ours, baseline);
                report(aim.into_iter().fold(figure, Figure::aiming_at));
            }
        }
        let name = format!("{} {size} B, {WORKERS} workers, through the wire", work.name());
        let beside = |what: &str, values: &BTreeMap<_, f64>, baseline: (&'static str, f64)| {
            let of = ("object", format!("{name}, {what}"), "us");
            Figure::new(of, Better::Lower, values[NACRE], baseline)
        };
        let p99s = medians(measured.p99s);
        for baseline in [work.redis_name(), raw_file::NAME_BEHIND_WIRE] {
            let Some(theirs) = p99s.get(baseline) else { continue };
            let figure = beside("latency p99", &p99s, (baseline, *theirs));
            let has_aim = work != Work::Read && baseline == work.redis_name();
            report(if has_aim { figure.aiming_at(P99_AIM) } else { figure });
        }
        let (of_cpu, cpu) = ("CPU of client and server", medians(measured.cpu));
        for (baseline, micros) in cpu.iter().filter(|(side, _)| **side != NACRE) {
            report(beside(of_cpu, &cpu, (*baseline, *micros)));
        }
        if (work, size) == (Work::Write, SIZES[0]) {
            report(beside(of_cpu, &cpu, ("the aim", CPU_AIM_MICROS)).aiming_at(1.0));
        }
        Ok(())
    }

    /// Measures the baselines other than Redis once.
    async fn measure_others(&self, span: Duration, measured: &mut Measured) -> Result<()> {
        let (work, size) = (self.work, self.size);
        let Beside { wire, trees, folder, nodes, .. } = self.beside;
        if work == Work::Read {
            let rate = wire::rate(&[wire.getting(size)], WORKERS, span).await?;
            measured.rates.entry(wire::NAME).or_default().push(rate);
            return Ok(());
        }
        let first = [wire.sending(size)];
        let behind = raw_file::behind(folder, AtItsEnd::StartsOver, &first, WORKERS, size, span);
        measured.add(raw_file::NAME, &raw_file::run(folder, WORKERS, size, span).await?);
        measured.add_with_cpu(raw_file::NAME_BEHIND_WIRE, &with_cpu(nodes, behind).await?);
        let of_tree = async |exchanges: &[Exchange]| {
            let tree = trees.tree(&format!("{}-{size}", work.name().replace(' ', "-")))?;
            let writers = Writers { count: WORKERS, size, keys: work.keys(), exchanges };
            writers.run(tree, span).await
        };
        measured.add(bare_tree::NAME, &of_tree(&[]).await?);
        measured.add(bare_tree::NAME_BEHIND_WIRE, &of_tree(&first).await?);
        Ok(())
    }
}

/// Adds the CPU time of each operation in the client and in the servers together to a measurement,
/// in microseconds. The rate after the warm-up counts for the whole measurement.
async fn with_cpu(
    servers: &Processes,
    measuring: impl Future<Output = Result<load::Outcome>>,
) -> Result<(load::Outcome, f64)> {
    let clock = SystemClock::default();
    let (began, before) = (clock.monotonic(), CpuMicros::now(Some(servers))?);
    let measured = measuring.await?;
    let operations = measured.rate * (clock.monotonic() - began).as_secs_f64();
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
    with_cpu(nodes, measuring).await
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
    with_cpu(&redis.processes(), measuring).await
}
