//! `append`: durable appends to a shared log by 64 concurrent writers of one client, over the wire.
//! No other client uses the log, so this client issues the positions itself, and each append is one
//! exchange with a storage node.
//!
//! There is one storage target, because the machine has one disk and the baseline is one file on
//! it. The writers share the client, as the threads of a service do. Each writer waits for the
//! acknowledgement of its record.

use std::time::Duration;

use nacre::{Cluster, Log, LogOptions, RoleName};
use nacre_object::{ClassName, Result};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs};
use crate::raw_file::{self, AtItsEnd};
use crate::redis_server::{RedisServer, failed};
use crate::scratch::BesideRedis;
use crate::wire::Wire;

const WRITERS: usize = 64;
const SIZES: [usize; 3] = [128, 1024, 4096];
/// The aim for the 99th percentile of the latency: at most 1.2 times that of Redis.
const P99_AIM: f64 = 1.0 / 1.2;
/// What it is compared with.
const REDIS: &str = "Redis XADD, appendfsync always";

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let both = BesideRedis::start(setup).await?;
    let client = both.cluster.client().await?;
    let wire = Wire::to(&both.cluster, RoleName::Storage)?;
    let folder = both.folder.path();
    for size in SIZES {
        let name = format!("{size} B, {WRITERS} writers, through the wire");
        if !setup.wants(&name) {
            continue;
        }
        let (mut ours, mut theirs) = (Runs::default(), Runs::default());
        let [mut raw, mut behind_wire, mut log_file] = <[Runs; 3]>::default();
        for round in 0..setup.rounds {
            let log = new_log(&client, &format!("append-{size}-{round}")).await?;
            ours.push(nacre(&log, size, setup.span).await?);
            log.release().await;
            raw.push(raw_file::run(folder, WRITERS, size, setup.span).await?);
            let exchange = [wire.sending(size)];
            for (runs, at_its_end) in
                [(&mut behind_wire, AtItsEnd::StartsOver), (&mut log_file, AtItsEnd::Grows)]
            {
                let outcome =
                    raw_file::behind(folder, at_its_end, &exchange, WRITERS, size, setup.span);
                runs.push(outcome.await?);
            }
            theirs.push(streams(&both.redis, &format!("{size}-{round}"), size, setup.span).await?);
        }
        let of = |name: &str| ("append", name.to_owned(), "records/s");
        for (limit, aim) in [
            ((raw_file::NAME, raw.rate()), None),
            ((raw_file::NAME_BEHIND_WIRE, behind_wire.rate()), Some(0.8)),
            ((raw_file::NAME_OF_LOG, log_file.rate()), Some(0.8)),
            ((REDIS, theirs.rate()), Some(1.5)),
        ] {
            let figure = Figure::new(of(&name), Better::Higher, ours.rate(), limit);
            report(Figure { aim, ..figure });
        }
        for ((baseline, runs), aim) in
            [((REDIS, &theirs), Some(P99_AIM)), ((raw_file::NAME_BEHIND_WIRE, &behind_wire), None)]
        {
            let of = ("append", format!("{name}, latency p99"), "us");
            let baseline = (baseline, runs.p99_micros());
            let figure = Figure::new(of, Better::Lower, ours.p99_micros(), baseline);
            report(Figure { aim, ..figure });
        }
    }
    both.stop().await;
    Ok(())
}

/// A log whose storage interface is the native class.
pub(crate) async fn new_log(client: &Cluster, name: &str) -> Result<Log> {
    let class = ClassName::new(nacre::LOG_NATIVE_CLASS)?;
    client.create_log(name, LogOptions { class, ..LogOptions::default() }).await
}

async fn nacre(log: &Log, size: usize, span: Duration) -> Result<Outcome> {
    load::run(WRITERS, span, |_| {
        let (log, record) = (log.clone(), vec![7; size]);
        move |_| {
            let (log, record) = (log.clone(), record.clone());
            async move { log.append(record).await.map(drop) }
        }
    })
    .await
}

async fn streams(
    redis: &RedisServer,
    stream: &str,
    size: usize,
    span: Duration,
) -> Result<Outcome> {
    let connections = redis.connections(WRITERS).await?;
    load::run(WRITERS, span, |writer| {
        let connection = connections[writer].clone();
        let mut add = redis::cmd("XADD");
        add.arg(stream).arg("*").arg("r").arg(vec![7u8; size]);
        move |_| {
            let (mut connection, add) = (connection.clone(), add.clone());
            async move { add.query_async::<String>(&mut connection).await.map(drop).map_err(failed) }
        }
    })
    .await
}
