//! `append` on Ceph: appends to a shared log, compared with `rados_aio_append` on the same cluster.
//! Both sides write the same bytes to the same number of objects, with the same number of records
//! in flight.
//!
//! A second baseline also uses librados alone, but adds the check by which every log refuses
//! writers of an old epoch: it sets an omap entry only if an xattr has the expected value. An OSD
//! begins such an operation only after all earlier operations on the object are committed.
//!
//! The log's class is the Lua program. It runs inside the OSDs if they have nacre's object class.

use bytes::Bytes;
use nacre::{Batching, Cluster, ErrorKind, Log, LogName, LogOptions};
use nacre_object::Result;
use nacre_rados::PlainClient;
use nacre_rados::RadosOptions;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs};

/// How many records are in flight if each is an operation of its own.
const WRITERS: usize = 32;
/// How many writers wait for their records if several records share an operation.
const WAITING_WRITERS: usize = 1024;
/// The measured record sizes. The last is one byte more than a page, which is slow in some layouts.
const SIZES: [usize; 4] = [128, 1024, 4096, 4097];
const BATCHED_SIZE: usize = 128;
/// How many records are appended to an object before the next object is begun, as in a log.
const SLOTS: u32 = 16 * 1024;
/// How many objects are appended to at the same time, on both sides.
const COLUMNS: u32 = 8;
const POOL: &str = "bench";
const BASELINE: &str = "rados_aio_append";
const GUARDED: &str = "bare omap sets, each behind a compared xattr";
/// The xattr that is compared.
const EPOCH: &str = "epoch";
const AIM: f64 = 0.85;
const BATCHED_AIM: f64 = 5.0;

pub(crate) async fn run(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let plain = PlainClient::connect(options.clone(), POOL).await?;
    let cluster = setup.in_process(options).await?;
    let alone = cluster.batching(Batching::OFF);
    for size in SIZES {
        let name = format!("{size} B, one record an operation, {WRITERS} in flight");
        if !setup.wants(&name) {
            continue;
        }
        let (mut ours, mut raw) = (Runs::default(), Runs::default());
        let mut guarded = Runs::default();
        for _ in 0..setup.rounds {
            let log = fresh_log(&alone).await?;
            ours.push(appends(&log, WRITERS, size, setup).await?);
            raw.push(raw_appends(&plain, log.name(), size, setup).await?);
            guarded.push(guarded_sets(&plain, log.name(), size, setup).await?);
        }
        both(&name, &ours, &raw, AIM, report);
        let of = || ("append on Ceph", name.clone(), "records/s");
        report(Figure::new(of(), Better::Higher, ours.rate(), (GUARDED, guarded.rate())));
        let of = ("append on Ceph", format!("{name}, {GUARDED}"), "records/s");
        report(Figure::new(of, Better::Higher, guarded.rate(), (BASELINE, raw.rate())));
    }
    let name =
        format!("{BATCHED_SIZE} B, {WAITING_WRITERS} writers whose records share operations");
    if setup.wants(&name) {
        let (mut ours, mut raw) = (Runs::default(), Runs::default());
        for _ in 0..setup.rounds {
            let log = fresh_log(&cluster).await?;
            ours.push(appends(&log, WAITING_WRITERS, BATCHED_SIZE, setup).await?);
            raw.push(raw_appends(&plain, log.name(), BATCHED_SIZE, setup).await?);
        }
        both(&name, &ours, &raw, BATCHED_AIM, report);
    }
    Ok(())
}

fn both(name: &str, ours: &Runs, raw: &Runs, aim: f64, report: &mut dyn FnMut(Figure)) {
    let of = ("append on Ceph", name.to_owned(), "records/s");
    let figure = Figure::new(of, Better::Higher, ours.rate(), (BASELINE, raw.rate()));
    report(figure.aiming_at(aim));
    let of = ("append on Ceph", format!("{name}, latency p99"), "us");
    report(Figure::new(of, Better::Lower, ours.p99_micros(), (BASELINE, raw.p99_micros())));
}

/// A log that nobody has written to.
async fn fresh_log(cluster: &Cluster) -> Result<Log> {
    for number in 0.. {
        let options = LogOptions { width: Some(COLUMNS), slots: SLOTS, ..LogOptions::default() };
        match cluster.create_log(&format!("bench-append-{number}"), options).await {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            other => return other,
        }
    }
    unreachable!("there are more numbers than logs")
}

async fn appends(log: &Log, writers: usize, size: usize, setup: &Setup) -> Result<Outcome> {
    load::run(writers, setup.span, |_| {
        let (log, record) = (log.clone(), vec![7; size]);
        move |_| {
            let (log, record) = (log.clone(), record.clone());
            async move { log.append(record).await.map(drop) }
        }
    })
    .await
}

/// Appends records with librados alone. It uses as many objects at a time as the log does, and
/// changes to new objects after the same number of records.
async fn raw_appends(
    plain: &PlainClient,
    log: &LogName,
    size: usize,
    setup: &Setup,
) -> Result<Outcome> {
    load::run(WRITERS, setup.span, |writer| {
        let (plain, data) = (plain.clone(), Bytes::from(vec![7; size]));
        let log = log.clone();
        move |n| {
            let Slot { object, .. } = Slot::of(&log, n * WRITERS as u64 + writer as u64);
            let (plain, data) = (plain.clone(), data.clone());
            async move { plain.append(&object, data).await }
        }
    })
    .await
}

/// Like [`raw_appends`], but sets each record as a map entry, if the object has the expected epoch.
async fn guarded_sets(
    plain: &PlainClient,
    log: &LogName,
    size: usize,
    setup: &Setup,
) -> Result<Outcome> {
    let epoch = Bytes::from_static(b"1");
    load::run(WRITERS, setup.span, |writer| {
        let (plain, epoch) = (plain.clone(), epoch.clone());
        let (log, data) = (log.clone(), Bytes::from(vec![7; size]));
        let mut open = String::new();
        move |n| {
            let Slot { object, key } = Slot::of(&log, n * WRITERS as u64 + writer as u64);
            let object = format!("{object}.guarded");
            let is_open = std::mem::replace(&mut open, object.clone()) == object;
            let (plain, epoch, data) = (plain.clone(), epoch.clone(), data.clone());
            async move {
                if !is_open {
                    plain.set_attribute(&object, EPOCH, epoch.clone()).await?;
                }
                plain.set_key_if(&object, (EPOCH, epoch), (&key, data)).await
            }
        }
    })
    .await
}

/// Where a log would put a position.
struct Slot {
    object: String,
    key: String,
}

impl Slot {
    fn of(log: &LogName, position: u64) -> Self {
        let (row, column) = (position / u64::from(COLUMNS), position % u64::from(COLUMNS));
        let object = format!("{log}.{}.{column}", row / u64::from(SLOTS));
        Self { object, key: format!("{row:016x}") }
    }
}
