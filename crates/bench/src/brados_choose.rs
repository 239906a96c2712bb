//! `brados-choose`: judges the layouts that the tuner chooses for the objects of a log, in 24
//! workloads. It compares each choice with the best of all layouts, and with the choices of simple
//! rules that ignore the engine.
//!
//! The bench measures every layout, but hides the results from the tuner. The tuner predicts the
//! cost of all layouts, measures the few that look best, and chooses by its own measurements.

use std::time::Duration;

use nacre_object::{Error, Result};
use nacre_rados::RadosOptions;
use nacre_tuner::{Effort, OwnEngine, Profile, Tuned, Workload, tune};

use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;

const PROGRAM: &str = include_str!("../../../programs/class/log.brados");
/// Bytes of an entry.
const SIZES: [usize; 6] = [16, 256, 1024, 4096, 32_768, 131_072];
/// How long each transaction of the profile is measured.
const PROBE_SPAN: Duration = Duration::from_millis(300);
/// A choice counts as right if its rate is at least this share of the best rate, for every
/// workload. The next constant is the share for the median.
const WORST_SHARE: f64 = 0.90;
const MEDIAN_SHARE: f64 = 0.97;
/// The most bytes that the objects of one workload hold. The bound keeps the bench short, because
/// the bench fills the objects again for each layout and round.
const FILL_BYTES: usize = 64 * 1024 * 1024;
/// How many entries a filled object has, if [`FILL_BYTES`] allows as many.
const FILL_ENTRIES: usize = 64;
const OBJECTS: usize = 32;

/// What is asked for most.
#[derive(Debug, Clone, Copy)]
enum Mix {
    Writes,
    Reads,
    Seals,
    Trims,
}

impl Mix {
    const ALL: [Self; 4] = [Self::Writes, Self::Reads, Self::Seals, Self::Trims];

    fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::Reads => "reads",
            Self::Seals => "seals",
            Self::Trims => "trims",
        }
    }

    fn lines(self, bytes: usize) -> String {
        let write = format!("write 1, next, bytes({bytes})");
        let read = "read 1, used";
        match self {
            Self::Writes => format!("mix 19 {write}\nmix 1 {read}"),
            Self::Reads => format!("mix 1 {write}\nmix 19 {read}"),
            Self::Seals => format!("mix 1 {write}\nmix 1 seal 1\nmix 1 max_position nil"),
            Self::Trims => format!("mix 2 {write}\nmix 1 trim 1, used\nmix 1 {read}"),
        }
    }
}

/// The workload for an entry size and a mix of requests. In every second workload the objects
/// already hold entries when the measurement begins.
fn workload(size_at: usize, mix: Mix) -> Result<(String, Workload)> {
    let bytes = SIZES[size_at];
    let filled = (size_at + mix as usize).is_multiple_of(2);
    let entries = (FILL_BYTES / OBJECTS / bytes).clamp(1, FILL_ENTRIES);
    let entries = if filled { entries } else { 1 };
    let text = format!(
        "objects {OBJECTS}\nfill 1 seal 1\nfill {entries} write 1, next, bytes({bytes})\n{}",
        mix.lines(bytes)
    );
    let state = if filled { "filled" } else { "cold" };
    let name = format!("{} of {bytes} B, {state}", mix.name());
    let workload = Workload::parse(&text).map_err(|error| Error::invalid(error.to_string()))?;
    Ok((name, workload))
}

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    let engine = OwnEngine::embedded(&setup.folder)?;
    compare(setup, &engine, "embedded", report).await
}

pub(crate) async fn run_on_ceph(
    setup: &Setup,
    options: &RadosOptions,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let engine = OwnEngine::on_ceph(options.clone()).await?;
    compare(setup, &engine, "on Ceph", report).await
}

/// What came of all workloads.
#[derive(Default)]
struct Shares {
    /// Of the best, by the choice.
    chosen: Vec<f64>,
    /// And by each rule.
    rules: Vec<(&'static str, Vec<f64>)>,
}

impl Shares {
    fn push(&mut self, tuned: &Tuned) {
        let share = |at| 1.0 - tuned.regret(at).unwrap_or(1.0);
        self.chosen.push(share(tuned.chosen));
        self.rules.resize_with(tuned.rules.len(), Default::default);
        for ((name, shares), (rule, at)) in self.rules.iter_mut().zip(&tuned.rules) {
            *name = rule;
            shares.push(share(*at));
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

async fn compare(
    setup: &Setup,
    engine: &OwnEngine,
    place: &str,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let fingerprint = engine.fingerprint().clone();
    let profile = Profile::measure(engine.bench(), fingerprint, PROBE_SPAN, &mut |_| {}).await?;
    let effort = Effort { span: setup.span, rounds: setup.rounds, sweep: true };
    let mut shares = Shares::default();
    for mix in Mix::ALL {
        for size_at in 0..SIZES.len() {
            let (name, workload) = workload(size_at, mix)?;
            let name = format!("{place}, {name}");
            if !setup.wants(&name) {
                continue;
            }
            let ignored = &mut |_: &_| {};
            let tuned = tune(engine.bench(), PROGRAM, &workload, &profile, effort, ignored).await?;
            shares.push(&tuned);
            let best = tuned
                .tried
                .iter()
                .max_by(|a, b| a.measured.unwrap_or(0.0).total_cmp(&b.measured.unwrap_or(0.0)));
            let Some(best) = best else { continue };
            let figure = format!("{name}: {}", tuned.chosen().layout);
            let baseline = format!("the best of {}: {}", tuned.tried.len(), best.layout);
            let baseline = (baseline.as_str(), best.measured.unwrap_or(0.0));
            let of = ("brados-choose", figure, "requests/s");
            let ours = tuned.chosen().measured.unwrap_or(0.0);
            report(Figure::new(of, Better::Higher, ours, baseline).aiming_at(WORST_SHARE));
        }
    }
    summary(place, &shares, report);
    Ok(())
}

/// The shares of the best over all workloads.
fn summary(place: &str, shares: &Shares, report: &mut dyn FnMut(Figure)) {
    if shares.chosen.is_empty() {
        return;
    }
    let count = shares.chosen.len();
    let of =
        |what| ("brados-choose", format!("{place}, {what} of {count} workloads"), "of the best");
    let best = ("the best layout of each", 1.0);
    let middle = median(shares.chosen.clone());
    report(Figure::new(of("median"), Better::Higher, middle, best).aiming_at(MEDIAN_SHARE));
    let worst = shares.chosen.iter().copied().fold(f64::INFINITY, f64::min);
    report(Figure::new(of("worst"), Better::Higher, worst, best).aiming_at(WORST_SHARE));
    for (rule, by_rule) in &shares.rules {
        let rule = (*rule, mean(by_rule));
        report(Figure::new(of("mean"), Better::Higher, mean(&shares.chosen), rule).aiming_at(1.0));
    }
}
