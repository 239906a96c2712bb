//! `slo-admit`: how many clients each estimator admits, for traces that load all targets equally
//! and for traces that load only one. For the admitted clients it compares the measured load of the
//! busiest target with the load that the estimator assumes.

use nacre_experiments::thesis::{ESTIMATORS, TraceKind};
use nacre_object::Result;
use nacre_qos::Estimator;

use super::clients::Clients;
use super::estimators::{self, Trial};
use crate::bench::Setup;
use crate::figure::{Better, Figure};
use crate::load::median;
use crate::slow_targets::SlowTargets;

/// The part of the admitted requests that must be answered within their SLO.
const KEPT_AT: f64 = 0.999;
/// How near the measured load of the busiest target must be to the load that the promises assume.
const LOAD_AGREES_AT: f64 = 0.85;
/// How many requests must be answered in time with nacre's estimator, as a part of those with
/// another one.
const THROUGHPUT_AIM: f64 = 0.95;
/// nacre's own estimator. The aims apply to it.
const OURS: Estimator = Estimator::PerTarget;

pub(crate) async fn run(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    measure("slo-admit", SlowTargets::start(setup).await?, setup, report).await
}

pub(crate) async fn run_on_ceph(setup: &Setup, report: &mut dyn FnMut(Figure)) -> Result<()> {
    measure("slo-admit on Ceph", SlowTargets::start_on_ceph(setup).await?, setup, report).await
}

async fn measure(
    bench: &'static str,
    slow: SlowTargets,
    setup: &Setup,
    report: &mut dyn FnMut(Figure),
) -> Result<()> {
    let clients = Clients::new(slow).await?;
    let scale = estimators::scale(&clients, setup.span).await?;
    let trials = estimators::measure(&clients, scale, setup.rounds, setup.span).await?;
    clients.slow.stop().await;
    for kind in TraceKind::ALL {
        for estimator in ESTIMATORS {
            report_trials(bench, Trials::of(&trials, kind, estimator), report);
        }
        compare(bench, &trials, kind, report);
    }
    let of = (bench, "the SLOs, as a multiple of", "times");
    report(Figure::new(of, Better::Lower, scale, ("the thesis", 1.0)));
    Ok(())
}

/// The trials of one estimator on one kind of traces.
struct Trials<'a> {
    kind: TraceKind,
    estimator: Estimator,
    all: Vec<&'a Trial>,
}

impl<'a> Trials<'a> {
    fn of(trials: &'a [Trial], kind: TraceKind, estimator: Estimator) -> Self {
        let is_one = |trial: &&Trial| trial.kind == kind && trial.estimator == estimator;
        Self { kind, estimator, all: trials.iter().filter(is_one).collect() }
    }

    fn median(&self, value: impl Fn(&Trial) -> f64) -> f64 {
        median(self.all.iter().map(|trial| value(trial)).collect())
    }
}

fn report_trials(bench: &'static str, trials: Trials<'_>, report: &mut dyn FnMut(Figure)) {
    let name = |what: &str| format!("{} traces, {}: {what}", trials.kind.name(), trials.estimator);
    let aiming = |figure: Figure, aim| match trials.estimator == OURS {
        true => figure.aiming_at(aim),
        false => figure,
    };
    if let Some(thesis) = trials.kind.admitted_in_thesis(trials.estimator) {
        let admitted = trials.median(|trial| trial.admitted as f64);
        let of = (bench, name("admitted"), "clients");
        report(equal(of, admitted, ("the thesis", thesis as f64)).aiming_at(1.0));
    }
    let percent = |value: fn(&Trial) -> f64| 100.0 * trials.median(value);
    let of = (bench, name("load of the busiest target"), "% of what can be promised");
    let assumed = ("assumed by the promises", percent(|trial| trial.assumed_load));
    report(aiming(equal(of, percent(|trial| trial.measured_load), assumed), LOAD_AGREES_AT));
    let sum = |value: fn(&Trial) -> usize| trials.all.iter().map(|one| value(one)).sum::<usize>();
    let (requests, late) = (sum(|trial| trial.requests), sum(|trial| trial.late));
    let of = (bench, name("answered within the SLO"), "requests");
    let all = ("all requests", requests as f64);
    report(aiming(Figure::new(of, Better::Higher, (requests - late) as f64, all), KEPT_AT));
}

/// Compares how many requests each estimator lets the targets answer in time.
fn compare(bench: &'static str, trials: &[Trial], kind: TraceKind, report: &mut dyn FnMut(Figure)) {
    let rate = |estimator| Trials::of(trials, kind, estimator).median(|trial| trial.in_time_rate);
    for other in ESTIMATORS.into_iter().filter(|other| *other != OURS) {
        let name = format!("{} traces, {OURS}: answered within the SLO a second", kind.name());
        let of = (bench, name, "requests/s");
        let figure = Figure::new(of, Better::Higher, rate(OURS), (other.to_string(), rate(other)));
        report(figure.aiming_at(THROUGHPUT_AIM));
    }
}

/// A figure that should equal its baseline: its ratio is at most 1, and smaller the more they
/// differ in either direction.
fn equal(of: (&'static str, String, &'static str), ours: f64, baseline: (&str, f64)) -> Figure {
    let better = if ours > baseline.1 { Better::Lower } else { Better::Higher };
    Figure::new(of, better, ours, baseline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_should_equal_its_baseline_may_differ_in_neither_direction() {
        let ratio = |ours| equal(("b", "f".to_owned(), "clients"), ours, ("the thesis", 2.0)).ratio;
        assert_eq!([1.0, 2.0, 4.0].map(ratio), [0.5, 1.0, 0.5]);
    }
}
