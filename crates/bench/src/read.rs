//! `read`: random reads of single log entries, warm, by 64 concurrent readers.

use std::time::Duration;

use bytes::Bytes;
use nacre::{Entry, Log, RoleName};
use nacre_clock::Random;
use nacre_object::{Error, Result};

use crate::append::new_log;
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::redis_server::{RedisServer, failed};
use crate::scratch::BesideRedis;
use crate::wire::{self, Wire};

const READERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
/// Entries of the log, and of the stream.
const ENTRIES: usize = 20_000;
/// How many entries are appended at the same time while the log is filled.
const FILL_BATCH: usize = 500;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let both = BesideRedis::start(setup).await?;
    let client = both.cluster.client().await?;
    let wire = Wire::to(&both.cluster, RoleName::Storage)?;
    for size in SIZES {
        let name = format!("{size} B, {READERS} readers, through the wire");
        if !setup.wants(&name) {
            continue;
        }
        let log = new_log(&client, &format!("read-{size}")).await?;
        for _ in 0..ENTRIES / FILL_BATCH {
            let records = vec![Bytes::from(vec![7; size]); FILL_BATCH];
            log.append_batch(&records).await.into_iter().collect::<Result<Vec<_>>>()?;
        }
        let stream = format!("read-{size}");
        let ids = fill_stream(&both.redis, &stream, size).await?;
        let (mut ours, mut theirs, mut limit) = (vec![], vec![], vec![]);
        for _ in 0..setup.rounds {
            ours.push(nacre(&log, size, setup.span).await?);
            limit.push(wire::rate(&[wire.getting(size)], READERS, setup.span).await?);
            theirs.push(xrange(&both.redis, &stream, &ids, setup.span).await?);
        }
        let (ours, of) = (median(ours), || ("read", name.clone(), "reads/s"));
        let theirs = ("Redis XRANGE of one entry", median(theirs));
        report(Figure::new(of(), Better::Higher, ours, theirs).aiming_at(1.0));
        report(Figure::new(of(), Better::Higher, ours, (wire::NAME, median(limit))));
    }
    both.stop().await;
    Ok(())
}

async fn nacre(log: &Log, size: usize, span: Duration) -> Result<f64> {
    let outcome = load::run(READERS, span, |reader| {
        let (log, mut random) = (log.clone(), Random::seeded(reader as u64));
        move |_| {
            let (log, position) = (log.clone(), random.below(ENTRIES as u64));
            async move {
                match log.read(position).await? {
                    Entry::Data(data) if data.len() == size => Ok(()),
                    other => Err(Error::corrupt(format!(
                        "position {position} holds {other:?} instead of an entry of {size} bytes"
                    ))),
                }
            }
        }
    });
    Ok(outcome.await?.rate)
}

/// Fills a Redis stream by pipelines. Returns the ids of the entries.
async fn fill_stream(redis: &RedisServer, stream: &str, size: usize) -> Result<Vec<String>> {
    let mut connection = redis.connect().await?;
    let mut ids = Vec::with_capacity(ENTRIES);
    for _ in 0..ENTRIES / FILL_BATCH {
        let mut pipeline = redis::pipe();
        for _ in 0..FILL_BATCH {
            pipeline.cmd("XADD").arg(stream).arg("*").arg("r").arg(vec![7u8; size]);
        }
        ids.extend(pipeline.query_async::<Vec<String>>(&mut connection).await.map_err(failed)?);
    }
    Ok(ids)
}

async fn xrange(redis: &RedisServer, stream: &str, ids: &[String], span: Duration) -> Result<f64> {
    let connections = redis.connections(READERS).await?;
    let outcome = load::run(READERS, span, |reader| {
        let (connection, mut random) = (connections[reader].clone(), Random::seeded(reader as u64));
        let (stream, ids) = (stream.to_owned(), ids.to_vec());
        move |_| {
            let id = &ids[random.below(ids.len() as u64) as usize];
            let mut range = redis::cmd("XRANGE");
            range.arg(&stream).arg(id).arg(id);
            let mut connection = connection.clone();
            async move {
                range.query_async::<redis::Value>(&mut connection).await.map(drop).map_err(failed)
            }
        }
    });
    Ok(outcome.await?.rate)
}
