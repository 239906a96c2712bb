//! Chooses the layout of a program for a workload.
//!
//! The layouts are ordered from plain to elaborate. The *plainest* is that of a program that names
//! no layout: everything is in the map. In the list, two costs *equal* each other if they differ by
//! less than the usual noise.
//!
//! 1. All legal layouts are listed, the plainest first.
//! 2. The cost of each is predicted from the engine's profile.
//! 3. Some layouts, the *finalists*, are measured in turns: the layout with the best prediction,
//!    with its header in each possible location; the best layout that stores its rows elsewhere;
//!    the plainest layout whose prediction equals the best; and the plainest of all.
//! 4. Of the finalists whose measurements equal the best measurement, the plainest is chosen.
//!
//! With `sweep` all layouts are measured. The report then shows how much slower the choice is than
//! the best layout, and how much slower the choices of simple rules are.

use std::collections::BTreeSet;
use std::time::Duration;

use nacre_brados::{Layout, with_layout};
use nacre_load::{Runs, in_turn};
use nacre_object::{Error, Result};
use serde::Serialize;

use crate::candidates::{Candidates, Rule};
use crate::measure::Subject;
use crate::predict;
use crate::profile::Profile;
use crate::workbench::Workbench;
use crate::workload::Workload;

/// Predictions that differ by less than this share count as equal.
const PREDICTION_NOISE: f64 = 0.10;
/// Nor are measurements.
const MEASUREMENT_NOISE: f64 = 0.03;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// How long each layout is measured in a round.
    pub span: Duration,
    /// The number of rounds. The medians count.
    pub rounds: usize,
    /// Whether all layouts are measured, instead of only the best few.
    pub sweep: bool,
}

/// The predicted and measured performance of a layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// The layout, as a program names it.
    pub layout: String,
    /// Requests a second, as predicted.
    pub predicted: f64,
    /// As measured, if it was.
    pub measured: Option<f64>,
    /// The 99th percentile of the requests' latencies as measured, in microseconds.
    pub p99_micros: Option<f64>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tuned {
    /// Every legal layout, the plainest first.
    pub tried: Vec<Tried>,
    /// The index of the chosen layout.
    pub chosen: usize,
    /// The name of each simple rule, and the index of the layout that it would have chosen.
    pub rules: Vec<(&'static str, usize)>,
}

impl Tuned {
    /// How much slower a layout is than the best measured layout; `None` if it was not measured.
    pub fn regret(&self, at: usize) -> Option<f64> {
        let best = self.tried.iter().filter_map(|one| one.measured).fold(0.0, f64::max);
        self.tried[at].measured.map(|rate| 1.0 - rate / best)
    }

    /// The one that is chosen.
    pub fn chosen(&self) -> &Tried {
        &self.tried[self.chosen]
    }
}

/// Chooses a layout. Calls `progress` with each layout before measuring it.
///
/// # Errors
/// `Invalid` if the program has mistakes; any error of its requests or of the engine.
pub async fn tune(
    bench: &Workbench,
    source: &str,
    workload: &Workload,
    profile: &Profile,
    effort: Effort,
    progress: &mut (dyn FnMut(&Layout) + Send),
) -> Result<Tuned> {
    let candidates = candidates(source, workload)?;
    let seconds = predicted_seconds(&candidates, source, workload, profile)?;
    let finalists = finalists(&seconds, &candidates.layouts);
    let measured = if effort.sweep { (0..seconds.len()).collect() } else { finalists.clone() };
    let mut runs: Vec<Runs> = seconds.iter().map(|_| Runs::default()).collect();
    for round in 0..effort.rounds {
        for at in in_turn(round, Vec::from_iter(measured.clone())) {
            let layout = &candidates.layouts[at];
            progress(layout);
            let source = with_layout(source, layout, &[]);
            let label = format!("{at}-{round}");
            // RADOS chooses an object's OSDs by the object's name. So that all layouts use the same
            // OSDs in a round, they use the same names.
            let names = format!("round-{round}");
            let subject = Subject::prepare(bench, &label, &names, &source, workload).await?;
            let outcome = subject.run(workload, effort.span).await;
            subject.clean().await?;
            runs[at].push(outcome?);
        }
    }
    Ok(judge(&candidates, &seconds, &finalists, &measured, &runs))
}

/// Chooses a layout by predictions alone: the plainest of the layouts whose predictions equal the
/// best. Measures nothing, but may compute for a second or two.
///
/// # Errors
/// `Invalid` if the program has mistakes; any error of its requests.
pub fn foresee(source: &str, workload: &Workload, profile: &Profile) -> Result<Tuned> {
    let candidates = candidates(source, workload)?;
    let seconds = predicted_seconds(&candidates, source, workload, profile)?;
    let foreseen = judge(&candidates, &seconds, &BTreeSet::new(), &BTreeSet::new(), &[]);
    Ok(Tuned { chosen: plainest_of_best(&seconds).unwrap_or(0), ..foreseen })
}

/// Seconds a request takes in each layout.
fn predicted_seconds(
    candidates: &Candidates,
    source: &str,
    workload: &Workload,
    profile: &Profile,
) -> Result<Vec<f64>> {
    let seconds =
        |layout: &Layout| predict::seconds(&with_layout(source, layout, &[]), workload, profile);
    candidates.layouts.iter().map(seconds).collect()
}

/// The plainest layout whose prediction equals the best.
fn plainest_of_best(seconds: &[f64]) -> Option<usize> {
    let best = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    seconds.iter().position(|seconds| *seconds <= best * (1.0 + PREDICTION_NOISE))
}

fn candidates(source: &str, workload: &Workload) -> Result<Candidates> {
    let compiled = nacre_brados::compile(source).map_err(|errors| {
        Error::invalid(format!("the program has mistakes: {errors}"))
            .hint("see the mistakes with `nacre brados check`")
    })?;
    Ok(Candidates::of(&compiled, workload.longest_bytes()))
}

/// Makes the result from predictions and measurements. `seconds` are the predicted times of a
/// request for each layout. `finalists` are the layouts that may be chosen. `measured` are the
/// layouts that were measured, and `runs` their measurements.
fn judge(
    candidates: &Candidates,
    seconds: &[f64],
    finalists: &BTreeSet<usize>,
    measured: &BTreeSet<usize>,
    runs: &[Runs],
) -> Tuned {
    let tried: Vec<Tried> = candidates
        .layouts
        .iter()
        .enumerate()
        .map(|(at, layout)| {
            let runs = measured.contains(&at).then(|| &runs[at]);
            Tried {
                layout: layout.to_string(),
                predicted: 1.0 / seconds[at],
                measured: runs.map(Runs::rate),
                p99_micros: runs.map(Runs::p99_micros),
            }
        })
        .collect();
    let rules = Rule::ALL.map(|rule| {
        let at = candidates.layouts.iter().position(|layout| layout == candidates.by(rule));
        (rule.name(), at.unwrap_or(0))
    });
    let chosen = chosen(&tried, finalists);
    Tuned { tried, chosen, rules: rules.to_vec() }
}

/// The layouts to measure: the layout with the best prediction, and all layouts that differ from it
/// only in the location of the header, which matters less than the error of predictions. Also the
/// best layout that stores its tables elsewhere, the plainest layout whose prediction equals the
/// best, and the plainest of all.
fn finalists(seconds: &[f64], layouts: &[Layout]) -> BTreeSet<usize> {
    let by_seconds = |a: &usize, b: &usize| seconds[*a].total_cmp(&seconds[*b]);
    let Some(first) = (0..seconds.len()).min_by(by_seconds) else { return BTreeSet::new() };
    let (mut finalists, elsewhere): (BTreeSet<usize>, BTreeSet<usize>) =
        (0..seconds.len()).partition(|at| layouts[*at].tables().eq(layouts[first].tables()));
    finalists.extend(elsewhere.into_iter().min_by(by_seconds));
    finalists.extend(plainest_of_best(seconds));
    finalists.insert(0);
    finalists
}

/// The plainest of the finalists whose measurements equal the best measurement of a finalist.
///
/// A layout that only a sweep measured cannot be chosen, because the sweep exists to judge the
/// choice.
fn chosen(tried: &[Tried], finalists: &BTreeSet<usize>) -> usize {
    let rate = |at: &usize| tried[*at].measured.unwrap_or(0.0);
    let best = finalists.iter().map(rate).fold(0.0, f64::max);
    let good = finalists.iter().find(|at| rate(at) >= best * (1.0 - MEASUREMENT_NOISE));
    good.copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use nacre_brados::layout::{HeaderLocation, TableLocation};

    use super::*;

    fn tried(rates: &[f64]) -> Vec<Tried> {
        let one = |rate: &f64| Tried {
            layout: "map".into(),
            predicted: *rate,
            measured: Some(*rate),
            p99_micros: None,
        };
        rates.iter().map(one).collect()
    }

    /// Layouts with the table in the map and then in slots, each with the header in every location.
    fn in_map_or_slots() -> Vec<Layout> {
        let places = [HeaderLocation::Map, HeaderLocation::Attribute, HeaderLocation::Stream];
        let mut layouts = vec![];
        for table in [TableLocation::Map, TableLocation::Slots { bytes: 64, count: None }] {
            for header in places {
                let mut layout = Layout::default();
                layout.header = header;
                layout.set_table("log", table);
                layouts.push(layout);
            }
        }
        layouts
    }

    #[test]
    fn the_best_predicted_layout_is_measured_with_its_header_in_each_location() {
        let of = |seconds: [f64; 6]| Vec::from_iter(finalists(&seconds, &in_map_or_slots()));
        assert_eq!(of([9.0, 9.0, 9.0, 1.3, 1.2, 1.0]), [0, 3, 4, 5]);
        // Among the finalists are the best layout that stores rows elsewhere, the plainest whose
        // prediction equals the best, and the plainest of all.
        assert_eq!(of([9.0, 1.08, 1.05, 1.3, 1.2, 1.0]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(of([1.0, 1.1, 1.2, 4.0, 3.0, 5.0]), [0, 1, 2, 4]);
        assert!(finalists(&[], &[]).is_empty());
    }

    #[test]
    fn a_program_with_mistakes_is_refused_without_its_warnings() {
        let source = "state do\n  table :unread, [:name:string] => [:size:int]\n\
                      interface input, :put, [:name:string, :size:int]\nend\n\
                      bloom do\n  unread <+ put\nend\nlayout unread: slots(64)\n";
        let workload = Workload::parse("mix 1 put 'a', 1").unwrap();
        let error = candidates(source, &workload).unwrap_err().to_string();
        assert!(error.contains("must be one `int`"), "{error}");
    }

    #[test]
    fn of_layouts_with_equal_predictions_the_plainest_is_chosen() {
        assert_eq!(plainest_of_best(&[1.2, 1.05, 1.0]), Some(1));
        assert_eq!(plainest_of_best(&[]), None);
    }

    #[test]
    fn of_layouts_with_equal_measurements_the_plainest_is_chosen() {
        assert_eq!(chosen(&tried(&[98.0, 100.0, 99.0]), &BTreeSet::from([2, 1, 0])), 0);
        assert_eq!(chosen(&tried(&[90.0, 100.0, 99.0]), &BTreeSet::from([2, 1, 0])), 1);
        // Layout 1 is the fastest by far, but it is not a finalist. A sweep measures it only to
        // judge the choice, so it cannot be chosen.
        assert_eq!(
            chosen(&tried(&[80.0, 200.0, 90.0, 100.0, 99.0]), &BTreeSet::from([4, 2, 3, 0])),
            3
        );
    }

    #[test]
    fn the_regret_of_a_choice_is_how_much_slower_it_is_than_the_best() {
        let tuned = Tuned { tried: tried(&[50.0, 100.0]), chosen: 0, rules: vec![] };
        assert_eq!((tuned.regret(0), tuned.regret(1)), (Some(0.5), Some(0.0)));
    }
}
