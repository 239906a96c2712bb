//! `route-tail`: the tail latency of a target in a burst, when the tail-latency application
//! (`programs/control/tail.lua`) sends its writes to other targets, beside the same trace without
//! routing (sRoute, section 5.1, figure 7).
//!
//! A generated trace ([`trace`]) is played in an open loop on three volumes, each on a target of its
//! own. The target of the volume that bursts is limited throughout to [`LIMIT_FACTOR`] times the load
//! of the median volume. The limit is that of a simulated device, because all targets share the one
//! disk of this machine. In the burst, the load is about twice this limit. The other targets are as
//! fast as the disk. In one case they have the same limit, and so less to spare.
//!
//! On Ceph the targets are OSDs of a cluster that the bench starts, without replicas. The simulated
//! devices are in the gateway through which all IO passes: it delays a request to an OSD before the
//! request goes to RADOS ([`TargetBed`]).
//!
//! Each read is compared with the last acknowledged write. The next side begins when all bytes are
//! back on their usual target.

mod bed;
mod load;
mod trace;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use nacre_clock::{Clock, SystemClock};
use nacre_node::RouteStatus;
use nacre_object::{Error, Result};
use nacre_terminal::out::note;

use self::bed::{TARGETS, limit, volume_targets};
use self::load::{Load, Served};
use self::trace::{BURSTING, MEDIAN_RATE, Onset, Trace};
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::{in_turn, median};
use crate::route_recover::nacre;
use crate::target_bed::TargetBed;

/// The limit of a target, in loads of the median volume.
const LIMIT_FACTOR: f64 = 12.0;
const POOL: &str = "data";
const APPLICATION: &str = "tail";
const TAIL_SOURCE: &str = include_str!("../../../../programs/control/tail.lua");
/// The seconds over which the application computes the recent rate of a target, and the average
/// one. The paper has a minute and an hour; its burst lasts for more than 15 minutes.
const RECENT_SECONDS: f64 = 1.0;
const AVERAGE_SECONDS: f64 = 60.0;
/// The seconds between two runs of the control program.
const EVERY_SECONDS: f64 = 0.25;
/// The application ignores targets with fewer requests a second.
const LEAST_RATE: f64 = MEDIAN_RATE * 1.5;
/// How long routed bytes may take to come home.
const PATIENCE: Duration = Duration::from_secs(120);
const REST: Duration = Duration::from_millis(100);
/// The greatest latency that is told apart from greater ones.
const MAX_LATENCY_MICROS: u64 = 3_600_000_000;
/// The aim for the 99.9th percentile in the burst: two orders of magnitude, as in the paper.
const AIM: f64 = 100.0;
/// The aim for the 99th percentile of the other volumes, beside that without routing.
const OTHERS_AIM: f64 = 1.0 / 1.2;

/// What is measured: a kind of burst, and the targets that are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Case {
    onset: Onset,
    limited: Limited,
}

/// Which targets serve only a given number of requests a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limited {
    /// The target of the volume that bursts.
    One,
    All,
}

impl Case {
    /// The case that the aims are about, and the paper's.
    const MAIN: Self = Self { onset: Onset::Gradual, limited: Limited::One };
    const ALL: [Self; 3] = [
        Self::MAIN,
        Self { onset: Onset::Gradual, limited: Limited::All },
        Self { onset: Onset::Sudden, limited: Limited::One },
    ];

    /// Its name in figures.
    fn name(self) -> String {
        let limited = match self.limited {
            Limited::One => "one target limited",
            Limited::All => "all targets limited",
        };
        format!("{} burst, {limited}", self.onset.as_str())
    }
}

/// Whether the tail-latency application runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Unrouted,
    Routed,
}

const SIDES: [Side; 2] = [Side::Unrouted, Side::Routed];

/// The latencies of the requests that were due in a burst.
pub(crate) struct BurstLatencies {
    /// Of the volume that bursts, in microseconds.
    bursting: Histogram<u64>,
    /// Of the other volumes, in microseconds.
    others: Histogram<u64>,
}

impl BurstLatencies {
    fn of(trace: &Trace, served: &[Served]) -> Result<Self> {
        let [mut bursting, mut others] = [histogram()?, histogram()?];
        for one in served.iter().filter(|one| trace.burst.contains(&one.due)) {
            let histogram = if one.volume == BURSTING { &mut bursting } else { &mut others };
            histogram.saturating_record(one.latency.as_micros() as u64);
        }
        Ok(Self { bursting, others })
    }

    /// A percentile of the volume that bursts, in milliseconds.
    pub(crate) fn bursting_millis(&self, percentile: f64) -> f64 {
        self.bursting.value_at_percentile(percentile) as f64 / 1e3
    }

    /// A percentile of the other volumes, in milliseconds.
    pub(crate) fn others_millis(&self, percentile: f64) -> f64 {
        self.others.value_at_percentile(percentile) as f64 / 1e3
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_max(MAX_LATENCY_MICROS, 3)
        .map_err(|error| Error::unavailable(format!("the latencies cannot be counted: {error}")))
}

/// What was measured with a kind of burst, round by round: without routing, and with it.
pub(crate) struct Rounds {
    unrouted: Vec<BurstLatencies>,
    routed: Vec<BurstLatencies>,
}

impl Rounds {
    /// The medians of the rounds, without routing and with it.
    pub(crate) fn medians(&self, of: impl Fn(&BurstLatencies) -> f64) -> [f64; 2] {
        [&self.unrouted, &self.routed].map(|rounds| median(rounds.iter().map(&of).collect()))
    }
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    measure_all("route-tail", setup, async || TargetBed::start_nodes(setup, TARGETS).await, report)
        .await
}

/// Measures the same on a separate Ceph cluster.
pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    measure_all(
        "route-tail on Ceph",
        setup,
        async || TargetBed::start_on_ceph(setup, TARGETS).await,
        report,
    )
    .await
}

/// Measures every case on a cluster of its own. Figures belong to the bench of this name.
async fn measure_all(
    bench: &'static str,
    setup: &Setup,
    start: impl AsyncFn() -> Result<TargetBed>,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    for case in Case::ALL {
        let name = case.name();
        if !setup.wants(&name) {
            continue;
        }
        let rounds = measure(setup, start().await?, case).await?;
        let figure = |what: &str, [unrouted, routed]: [f64; 2]| {
            let of = (bench, format!("{what}, {name}"), "ms");
            Figure::new(of, Better::Lower, routed, ("no routing", unrouted))
        };
        for percentile in [50.0, 99.0, 99.9] {
            let medians = rounds.medians(|one| one.bursting_millis(percentile));
            let one = figure(&format!("p{percentile} of the overloaded target's volume"), medians);
            let has_aim = percentile == 99.9 && case == Case::MAIN;
            report(if has_aim { one.aiming_at(AIM) } else { one });
        }
        let others =
            figure("p99 of the other volumes", rounds.medians(|one| one.others_millis(99.0)));
        report(if case == Case::MAIN { others.aiming_at(OTHERS_AIM) } else { others });
    }
    Ok(())
}

/// Measures the case of the paper; on Ceph if `setup` names the script that starts Ceph clusters.
pub(crate) async fn measure_main_case(setup: &Setup) -> Result<Rounds> {
    measure(setup, TargetBed::start(setup, TARGETS).await?, Case::MAIN).await
}

async fn measure(setup: &Setup, bed: TargetBed, case: Case) -> Result<Rounds> {
    let measured = measure_on(setup, &bed, case).await;
    bed.stop().await;
    measured
}

async fn measure_on(setup: &Setup, bed: &TargetBed, case: Case) -> Result<Rounds> {
    let targets = volume_targets(bed).await?;
    let load = Load::prepare(bed, POOL, &targets).await?;
    limit(bed, case.limited, &targets[BURSTING], MEDIAN_RATE * LIMIT_FACTOR).await?;
    let folder = bed.folder();
    put_program(setup, folder).await?;
    let trace = Trace::generate(case.onset, setup.span);
    let mut rounds = Rounds { unrouted: vec![], routed: vec![] };
    for round in 0..setup.rounds {
        for side in in_turn(round, SIDES) {
            let latencies = match side {
                Side::Unrouted => BurstLatencies::of(&trace, &load.play(&trace).await?)?,
                Side::Routed => {
                    start_application(setup, folder).await?;
                    let served = load.play(&trace).await?;
                    nacre(setup, folder, &["route", "stop", APPLICATION]).await?;
                    until_home(setup, bed).await?;
                    BurstLatencies::of(&trace, &served)?
                }
            };
            let percentiles = [50.0, 99.0, 99.9].map(|one| latencies.bursting_millis(one));
            note(&format!("{side:?}, p50, p99 and p99.9 in the burst, in ms: {percentiles:.1?}"));
            match side {
                Side::Unrouted => rounds.unrouted.push(latencies),
                Side::Routed => rounds.routed.push(latencies),
            }
        }
    }
    load.read_all().await?;
    note(&format!("{} reads returned the last acknowledged write", load.verified()));
    Ok(rounds)
}

/// Puts and activates the control program of the tail-latency application.
async fn put_program(setup: &Setup, folder: &Path) -> Result<()> {
    let path = folder.join("tail.lua");
    tokio::fs::write(&path, TAIL_SOURCE)
        .await
        .map_err(|error| Error::unavailable(format!("cannot write {}: {error}", path.display())))?;
    let (id, path) = (format!("control/{APPLICATION}"), path.to_string_lossy().into_owned());
    nacre(setup, folder, &["program", "put", &id, &path, "--activate"]).await.map(drop)
}

/// Starts the application. Returns when its program has run once.
async fn start_application(setup: &Setup, folder: &Path) -> Result<()> {
    let settings = BTreeMap::from([
        ("pools", POOL.to_owned()),
        ("recent_seconds", RECENT_SECONDS.to_string()),
        ("average_seconds", AVERAGE_SECONDS.to_string()),
        ("least_rate", LEAST_RATE.to_string()),
    ]);
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    let settings: Vec<_> = settings.collect();
    let every = EVERY_SECONDS.to_string();
    let mut arguments = vec!["route", "start", APPLICATION, "--every", &every];
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    nacre(setup, folder, &arguments).await.map(drop)
}

/// Waits until all bytes are on their usual targets, and no rules are left.
async fn until_home(setup: &Setup, bed: &TargetBed) -> Result<()> {
    let clock = SystemClock::default();
    let began = clock.monotonic();
    loop {
        let status = nacre(setup, bed.folder(), &["route", "status", "--json"]).await?;
        let status: Vec<RouteStatus> = serde_json::from_str(&status).map_err(|error| {
            Error::corrupt(format!("the status of routes cannot be read: {error}"))
        })?;
        let is_home =
            |one: &RouteStatus| one.rules.is_empty() && one.routed_bytes == 0 && one.in_doubt == 0;
        if status.len() == bed.nodes() && status.iter().all(is_home) {
            return Ok(());
        }
        if clock.monotonic() - began > PATIENCE {
            return Err(Error::unavailable(format!("not all bytes came home within {PATIENCE:?}")));
        }
        tokio::time::sleep(REST).await;
    }
}
