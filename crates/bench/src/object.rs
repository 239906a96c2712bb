//! `object`: durable writes, reads and map sets of small objects, in process and through the wire.

use std::path::Path;
use std::time::Duration;

use nacre::{Cluster, Object, Role};
use nacre_clock::Random;
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::raw_file::{self, AtItsEnd};
use crate::redis_server::{RedisServer, failed};
use crate::scratch::BesideRedis;
use crate::wire::{self, Wire};

const WORKERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
/// Objects that are written and read, and keys of Redis.
const OBJECTS: u64 = 10_000;
/// Keys of each worker's map.
const MAP_KEYS: u64 = 1000;

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
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let both = BesideRedis::start(setup).await?;
    let (folder, redis) = (both.folder.path(), &both.redis);
    let remote = both.cluster.client().await?;
    let local = Cluster::embedded(folder.join("embedded")).await?;
    let wire = Wire::to(&both.cluster, Role::Storage)?;
    for size in SIZES {
        for work in Work::ALL {
            if !setup.wants(&format!("{} {size} B", work.name())) {
                continue;
            }
            let sides = Sides { local: &local, remote: &remote, wire: &wire, redis, size, work };
            sides.measure(setup, folder, report).await?;
        }
    }
    both.stop().await;
    Ok(())
}

struct Sides<'a> {
    local: &'a Cluster,
    remote: &'a Cluster,
    wire: &'a Wire,
    redis: &'a RedisServer,
    size: usize,
    work: Work,
}

impl Sides<'_> {
    async fn measure(
        &self,
        setup: &Setup,
        folder: &Path,
        report: &mut dyn FnMut(Figure),
    ) -> Result<()> {
        let (size, work) = (self.size, self.work);
        let (mut local, mut remote, mut raw, mut theirs) = (vec![], vec![], vec![], vec![]);
        let mut limit = vec![];
        for _ in 0..setup.rounds {
            local.push(nacre(self.local, work, size, setup.span).await?);
            remote.push(nacre(self.remote, work, size, setup.span).await?);
            if work != Work::Read {
                raw.push(raw_file::run(folder, WORKERS, size, setup.span).await?);
            }
            limit.push(self.limit(folder, setup.span).await?);
            theirs.push(redis_side(self.redis, work, size, setup.span).await?);
        }
        let theirs = median(theirs);
        let named = |place| format!("{} {size} B, {WORKERS} workers, {place}", work.name());
        let (local, remote) = (median(local), median(remote));
        for (place, ours) in [("in process", local), ("through the wire", remote)] {
            let of = || ("object", named(place), "ops/s");
            if work != Work::Read {
                let raw = (raw_file::NAME, median(raw.clone()));
                report(Figure::new(of(), Better::Higher, ours, raw).aiming_at(0.5));
            }
            let theirs = (work.redis_name(), theirs);
            report(Figure::new(of(), Better::Higher, ours, theirs).aiming_at(1.0));
        }
        let limit_name = match work {
            Work::Read => wire::NAME,
            Work::Write | Work::MapSet => raw_file::NAME_BEHIND_WIRE,
        };
        let of = ("object", named("through the wire"), "ops/s");
        report(Figure::new(of, Better::Higher, remote, (limit_name, median(limit))));
        Ok(())
    }

    /// What the wire alone, and a bare file behind it, let through.
    async fn limit(&self, folder: &Path, span: Duration) -> Result<f64> {
        match self.work {
            Work::Read => wire::rate(&[self.wire.getting(self.size)], WORKERS, span).await,
            Work::Write | Work::MapSet => {
                let first = self.wire.sending(self.size);
                raw_file::behind(folder, AtItsEnd::StartsOver, &[first], WORKERS, self.size, span)
                    .await
            }
        }
    }
}

async fn nacre(cluster: &Cluster, work: Work, size: usize, span: Duration) -> Result<f64> {
    let pool = cluster.pool("data").await?;
    let name = |n: u64| format!("object-{size}-{n}");
    let objects = (0..OBJECTS).map(|n| pool.object(&name(n))).collect::<Result<Vec<_>>>()?;
    if work == Work::Read {
        for chunk in objects.chunks(WORKERS) {
            let data = || vec![7; size];
            futures::future::try_join_all(chunk.iter().map(|one| one.write_full(data()))).await?;
        }
    }
    let outcome = load::run(WORKERS, span, |worker| {
        let (objects, mut random) = (objects.clone(), Random::seeded(worker as u64));
        let own = pool.object(&format!("map-{size}-{worker}"));
        move |_| {
            let object = objects[random.below(OBJECTS) as usize].clone();
            let (own, key) = (own.clone(), random.below(MAP_KEYS));
            async move { once(work, &object, &own?, key, size).await }
        }
    });
    Ok(outcome.await?.rate)
}

async fn once(work: Work, object: &Object, own: &Object, key: u64, size: usize) -> Result<()> {
    match work {
        Work::Write => object.write_full(vec![7; size]).await,
        Work::Read => object.read(0, size as u64).await.map(drop),
        Work::MapSet => own.map_set(key.to_be_bytes().to_vec(), vec![7; size]).await,
    }
}

async fn redis_side(redis: &RedisServer, work: Work, size: usize, span: Duration) -> Result<f64> {
    let connections = redis.connections(WORKERS).await?;
    if work == Work::Read {
        let mut connection = connections[0].clone();
        for n in 0..OBJECTS {
            let mut set = redis::cmd("SET");
            set.arg(format!("object-{size}-{n}")).arg(vec![7u8; size]);
            set.query_async::<()>(&mut connection).await.map_err(failed)?;
        }
    }
    let outcome = load::run(WORKERS, span, |worker| {
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
    Ok(outcome.await?.rate)
}
