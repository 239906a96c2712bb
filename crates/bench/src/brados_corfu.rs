//! `brados-corfu`: durable appends to a log whose storage interface is made of relations
//! (`log.brados`), beside the same on the native class; through the wire, or on a Ceph cluster.

use nacre::{
    Cluster, ErrorKind, LOG_BRADOS_CLASS, LOG_NATIVE_CLASS, Log, LogOptions, RadosOptions,
};
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, Runs, in_turn};
use crate::scratch::{self, ScratchCluster};

const WRITERS: usize = 64;
const SIZES: [usize; 2] = [128, 4096];
/// One disk, so one target.
const TARGETS: usize = 1;
/// The least share of the native class's rate.
const AIM: f64 = 0.8;
const AIM_ON_CEPH: f64 = 0.9;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let outcome = compare(&cluster.client().await?, setup, "through the wire", AIM, report).await;
    cluster.stop().await;
    outcome
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let cluster = setup.in_process(options).await?;
    compare(&cluster, setup, "on Ceph", AIM_ON_CEPH, report).await
}

async fn compare(
    cluster: &Cluster,
    setup: &Setup,
    place: &str,
    aim: f64,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    for size in SIZES {
        let name = format!("appends of {size} B, {place}, {WRITERS} writers");
        if !setup.wants(&name) {
            continue;
        }
        let (mut relations, mut native) = (Runs::default(), Runs::default());
        for round in 0..setup.rounds {
            let sides = [(LOG_BRADOS_CLASS, &mut relations), (LOG_NATIVE_CLASS, &mut native)];
            for (class, runs) in in_turn(round, sides) {
                let log = fresh_log(cluster, class).await?;
                runs.push(appends(&log, size, setup).await?);
            }
        }
        let baseline = ("the log on the native class", native.rate());
        let of = ("brados-corfu", name, "records/s");
        report(Figure::new(of, Better::Higher, relations.rate(), baseline).aiming_at(aim));
    }
    Ok(())
}

/// A log that nobody has written to.
async fn fresh_log(cluster: &Cluster, class: &str) -> Result<Log> {
    for number in 0.. {
        let options = LogOptions { class: class.parse()?, ..LogOptions::default() };
        match cluster.create_log(&format!("{class}-{number}"), options).await {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            other => return other,
        }
    }
    unreachable!("there are more numbers than logs")
}

async fn appends(log: &Log, size: usize, setup: &Setup) -> Result<Outcome> {
    load::run(WRITERS, setup.span, |_| {
        let (log, record) = (log.clone(), vec![7; size]);
        move |_| {
            let (log, record) = (log.clone(), record.clone());
            async move { log.append(record).await.map(drop) }
        }
    })
    .await
}
