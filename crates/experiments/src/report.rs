//! The result of an experiment, stored as JSON. Its plot uses only this report.

use nacre_load::{Outcome, median};
use nacre_program::Digest;
use nacre_tuner::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::plan::{Over, Plan};
use crate::rounds::{Effort, WORKERS};
use crate::sample_log::STRIPES;
use crate::stored_report::{Measurement, StoredReport};
use crate::strategy::{PROGRAM, PROGRAM_PATH, Strategy};

/// An experiment's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was measured, when and where.
    #[serde(flatten)]
    pub measurement: Measurement,
    /// On what.
    pub engine: Fingerprint,
    /// The program whose layouts were measured.
    pub program: Program,
    /// How often each point was measured.
    pub rounds: usize,
    /// How long each time, in seconds.
    pub span_seconds: f64,
    /// Requests under way.
    pub workers: usize,
    /// Objects of an N:1 log.
    pub stripes: u64,
    /// The label of the x axis.
    pub x: String,
    /// A curve, or a bar, for each strategy.
    pub series: Vec<Series>,
}

/// A program, and which version of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Where its source is.
    pub path: String,
    /// The source's digest.
    pub sha256: String,
}

/// The results of a strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its name in the Brados paper.
    pub strategy: String,
    /// The operation or the class with which the strategy stores entries.
    pub way: String,
    /// The layout, where there is one, of the first point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The points in ascending order of x.
    pub points: Vec<Point>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The value on the x axis: bytes of an entry, or seconds.
    pub x: f64,
    /// Entries a second.
    pub entries_per_second: Spread,
    /// Median of the latencies, in microseconds.
    pub latency_p50_micros: Spread,
    /// Their 99th percentile.
    pub latency_p99_micros: Spread,
}

/// A measurement that was repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle of the rounds.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// All, in order.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// Of these rounds, to a tenth.
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        Self::exactly(rounds.into_iter().map(|value| (value * 10.0).round() / 10.0).collect())
    }

    /// Of these rounds as they are.
    pub fn exactly(rounds: Vec<f64>) -> Self {
        let of = |fold: fn(f64, f64) -> f64| rounds.iter().copied().reduce(fold).unwrap_or(0.0);
        let (least, most) = (of(f64::min), of(f64::max));
        Self { median: median(rounds.clone()), least, most, rounds }
    }
}

impl Report {
    pub(crate) fn new(
        experiment: Experiment,
        engine: &Fingerprint,
        effort: Effort,
        series: Vec<Series>,
    ) -> Self {
        let sha256 = Digest::of(PROGRAM).to_string();
        let x = match experiment.plan().over {
            Over::Sizes(_) => "bytes of an entry",
            Over::Time { .. } => "seconds",
        };
        Self {
            measurement: Measurement::new(experiment.name(), experiment.title()),
            engine: engine.clone(),
            program: Program { path: PROGRAM_PATH.to_owned(), sha256 },
            rounds: effort.rounds,
            span_seconds: effort.span.as_secs_f64(),
            workers: WORKERS,
            stripes: STRIPES,
            x: x.to_owned(),
            series,
        }
    }
}

impl StoredReport for Report {}

impl Series {
    /// The series of a strategy, from its outcomes by point and round.
    pub(crate) fn new(
        strategy: &Strategy,
        plan: &Plan,
        effort: Effort,
        outcomes: &[Vec<Outcome>],
    ) -> Self {
        let spread =
            |rounds: &[Outcome], of: &dyn Fn(&Outcome) -> f64| Spread::of(rounds.iter().map(of));
        let point = |(at, rounds): (usize, &Vec<Outcome>)| Point {
            x: plan.x(at, effort.span),
            entries_per_second: spread(rounds, &|outcome| outcome.rate),
            latency_p50_micros: spread(rounds, &|outcome| outcome.latency_micros(50.0)),
            latency_p99_micros: spread(rounds, &|outcome| outcome.latency_micros(99.0)),
        };
        Self {
            strategy: strategy.name.to_owned(),
            way: strategy.way.name().to_owned(),
            layout: strategy.layout(plan.bytes(0)),
            points: outcomes.iter().enumerate().map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_values_has_their_median_least_and_greatest() {
        let spread = Spread::of([3.04, 1.0, 2.0]);
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.0, 3.0));
        assert_eq!(spread.rounds, [3.0, 1.0, 2.0]);
    }
}
