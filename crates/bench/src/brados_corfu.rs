//! `brados-corfu`: durable appends to a log whose storage class is the Brados program `log.brados`,
//! compared with appends to a log with the native class. The appends go over the wire to nodes, or
//! to a Ceph cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nacre::{Cluster, ErrorKind, LOG_BRADOS_CLASS, LOG_NATIVE_CLASS, Log, LogOptions};
use nacre_object::Result;
use nacre_rados::RadosOptions;

use crate::bench::Setup;
use crate::cpu_micros::CpuMicros;
use crate::figure::{Better, Figure};
use crate::load::{self, Outcome, in_turn};
use crate::processes::Processes;
use crate::scratch::{self, ScratchCluster};
use crate::side::Side;

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
    let place = LogHost { name: "through the wire", aim: AIM, osds: None };
    let outcome = place.compare(&cluster.client().await?, setup, report).await;
    cluster.stop().await;
    outcome
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let cluster = setup.in_process(options).await?;
    let osds = Processes::osds_of(options).ok();
    let place = LogHost { name: "on Ceph", aim: AIM_ON_CEPH, osds };
    place.compare(&cluster, setup, report).await
}

/// Where the logs lie.
struct LogHost {
    name: &'static str,
    aim: f64,
    /// If there are some, and on this machine.
    osds: Option<Processes>,
}

impl LogHost {
    async fn compare(
        &self,
        cluster: &Cluster,
        setup: &Setup,
        report: &mut dyn FnMut(Figure),
    ) -> Result<()> {
        for size in SIZES {
            let name = format!("appends of {size} B, {}, {WRITERS} writers", self.name);
            if !setup.wants(&name) {
                continue;
            }
            let (mut relations, mut native) = (Side::default(), Side::default());
            for round in 0..setup.rounds {
                let sides = [(LOG_BRADOS_CLASS, &mut relations), (LOG_NATIVE_CLASS, &mut native)];
                for (class, side) in in_turn(round, sides) {
                    let log = fresh_log(cluster, class).await?;
                    side.push(self.appends(&log, size, setup).await?);
                }
            }
            let baseline = |theirs| ("the log on the native class", theirs);
            let of = ("brados-corfu", name.clone(), "records/s");
            let theirs = baseline(native.runs.rate());
            let rates = Figure::new(of, Better::Higher, relations.runs.rate(), theirs);
            report(rates.aiming_at(self.aim));
            let cpu = |what: &str, ours: f64, theirs: f64| {
                let of = ("brados-corfu", format!("{name}, CPU of the {what}"), "us");
                Figure::new(of, Better::Lower, ours, baseline(theirs))
            };
            if self.osds.is_some() {
                report(cpu("OSDs", relations.osd_micros(), native.osd_micros()));
                report(cpu("client", relations.client_micros(), native.client_micros()));
            }
        }
        Ok(())
    }

    async fn appends(&self, log: &Log, size: usize, setup: &Setup) -> Result<(Outcome, CpuMicros)> {
        let osds = self.osds.as_ref();
        let (before, count) = (CpuMicros::now(osds)?, Arc::new(AtomicU64::new(0)));
        let outcome = load::run(WRITERS, setup.span, |_| {
            let (log, record, count) = (log.clone(), vec![7; size], Arc::clone(&count));
            move |_| {
                let (log, record) = (log.clone(), record.clone());
                count.fetch_add(1, Ordering::Relaxed);
                async move { log.append(record).await.map(drop) }
            }
        })
        .await?;
        let each = CpuMicros::now(osds)?.each_since(&before, count.load(Ordering::Relaxed));
        Ok((outcome, each))
    }
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
