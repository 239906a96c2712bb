//! `sequencer-caps`: how many positions clients get if each call takes one position (Malacology,
//! section 6.1). There are three cases:
//!
//! - a client that has a log to itself and therefore issues the positions itself;
//! - a client that holds a resource whose file type is a sequencer in Luau;
//! - two clients that take turns with a log's capability. A program sets the rules for the turns,
//!   and the bench tries several programs.
//!
//! The baselines are the numbers of the Malacology paper and of its public data.

mod contended;
mod file_type;
mod paper_figure;

use std::time::Duration;

use nacre::{Cluster, LogOptions};
use nacre_object::Result;

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load;
use crate::load::median;
use crate::scratch::{self, ScratchCluster};

use contended::{Point, Sharing, TWO};
pub(crate) use paper_figure::measure as measure_figure;

const TARGETS: usize = 1;
/// The width of a stripe in objects; the next constant is the number of slots. At ten million
/// positions a second, a stripe lasts some seconds.
const WIDTH: u32 = 64;
const SLOTS: u32 = 1 << 20;
/// How many calls are timed together if one takes only some hundred nanoseconds.
const CALLS: usize = 1000;
/// Positions a second of one client, in the Malacology paper.
const PAPER: f64 = 6e6;
/// The aim, as a multiple of [`PAPER`]: 10 million a second.
const AIM: f64 = 10.0 / 6.0;
/// The aim for a sequencer in Luau, as a multiple of [`PAPER`]: one million a second.
const AIM_IN_LUAU: f64 = 1.0 / 6.0;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let folder = scratch::folder(&setup.folder)?;
    let cluster = ScratchCluster::start(folder.path(), TARGETS, &setup.program).await?;
    let (mut alone, mut two, mut in_luau) = (vec![], vec![], vec![]);
    file_type::install(&cluster).await?;
    for round in 0..setup.rounds {
        let name = new_log(&cluster, round).await?;
        alone.push(alone_with(&cluster, &name, setup.span).await?);
        in_luau.push(file_type::alone_with(&cluster, round, setup.span).await?);
        for sharing in load::in_turn(round, Sharing::all()) {
            two.push(contended::measure(&cluster, &name, sharing, TWO, setup.span).await?);
        }
    }
    cluster.stop().await;
    let alone = median(alone);
    let one = ("sequencer-caps", "one client, exclusive, one position a call", "positions/s");
    let paper = ("the paper's one client", PAPER);
    report(Figure::new(one, Better::Higher, alone, paper).aiming_at(AIM));
    let one = ("sequencer-caps", "the same, by a file type in Luau", "positions/s");
    report(Figure::new(one, Better::Higher, median(in_luau), paper).aiming_at(AIM_IN_LUAU));
    report_contended(&two, report);
    Ok(())
}

/// Reports how many positions two clients get, and how long a call takes, for each way to share the
/// capability. If a client may hold the capability for longer, both clients get more positions, and
/// the longest call takes longer.
fn report_contended(points: &[Point], report: &mut dyn FnMut(Figure)) {
    let of = |sharing, value: fn(&Point) -> f64| {
        let same = points.iter().filter(|point| point.sharing == sharing);
        median(same.map(value).collect())
    };
    let rate = |sharing| of(sharing, |point| point.rate);
    let mean = |sharing| of(sharing, |point| point.mean);
    let longest = |sharing| of(sharing, |point| point.longest);
    let round_trips = Sharing::RoundTrips;
    for sharing in Sharing::all() {
        let named = |unit: &'static str, what: &str| {
            ("sequencer-caps", format!("two clients, {}: {what}", sharing.name()), unit)
        };
        let beside = match sharing.public() {
            Some(public) => ("the paper's public data", public),
            None => ("round trips", rate(round_trips)),
        };
        let positions = named("positions/s", "positions");
        report(Figure::new(positions, Better::Higher, rate(sharing), beside));
        let (beside, better) = ("round trips", Better::Lower);
        let (mean, longest) =
            ((mean(sharing), mean(round_trips)), (longest(sharing), longest(round_trips)));
        report(Figure::new(named("us", "mean of a call"), better, mean.0, (beside, mean.1)));
        report(Figure::new(named("ms", "longest call"), better, longest.0, (beside, longest.1)));
    }
}

/// A log for a round, with its name.
async fn new_log(cluster: &ScratchCluster, round: usize) -> Result<String> {
    let name = format!("tokens{round}");
    let options = LogOptions { width: Some(WIDTH), slots: SLOTS, ..LogOptions::default() };
    cluster.client().await?.create_log(&name, options).await?;
    Ok(name)
}

async fn alone_with(cluster: &ScratchCluster, name: &str, span: Duration) -> Result<f64> {
    let client: Cluster = cluster.client().await?;
    let log = client.log(name).await?;
    let outcome = load::run(1, span, |_| {
        let log = log.clone();
        move |_| {
            let log = log.clone();
            async move {
                for _ in 0..CALLS {
                    log.take_positions(1).await?;
                }
                Ok(())
            }
        }
    });
    let rate = outcome.await?.rate * CALLS as f64;
    log.release().await;
    Ok(rate)
}
