//! Generates load for benchmarks: a number of workers, each of which waits for an operation to end
//! before it begins the next. They begin operations as fast as they can, or at a given rate.
//!
//! [`open_loop`] instead sends each request when it is due, whether or not earlier ones have ended.

mod answered;
mod open_loop;

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use hdrhistogram::Histogram;
use nacre_clock::{Clock, SystemClock};
use nacre_object::{Error, Result};

pub use answered::{until_answered, value_of_block};
pub use open_loop::{Answered, open_loop};

/// Part of a run before what is measured begins: caches fill, files are laid out.
pub const WARM_UP_SHARE: f64 = 0.2;

/// An operation that takes longer counts as this long.
const MAX_LATENCY_NANOS: u64 = 60_000_000_000;

/// The middle of some measurements, the upper one of an even number; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Orders the sides of a comparison for a round of measurements: as given in one round, reversed in
/// the next. So deferred work of one side, such as merging files, does not always slow down the
/// same other side.
pub fn in_turn<T, S: AsMut<[T]>>(round: usize, mut sides: S) -> S {
    if round % 2 == 1 {
        sides.as_mut().reverse();
    }
    sides
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Operations a second, after the warm-up.
    pub rate: f64,
    /// Of single operations, in nanoseconds.
    latencies: Histogram<u64>,
}

impl Outcome {
    /// A percentile of the operations' durations, in microseconds.
    pub fn latency_micros(&self, percentile: f64) -> f64 {
        self.latencies.value_at_percentile(percentile) as f64 / 1e3
    }
}

/// The outcomes of several rounds.
#[derive(Debug, Default)]
pub struct Runs(Vec<Outcome>);

impl Runs {
    /// Adds the outcome of a round.
    pub fn push(&mut self, outcome: Outcome) {
        self.0.push(outcome);
    }

    /// The median rate.
    pub fn rate(&self) -> f64 {
        median(self.0.iter().map(|outcome| outcome.rate).collect())
    }

    /// The median of the rounds' medians, in microseconds.
    pub fn median_micros(&self) -> f64 {
        median(self.0.iter().map(|outcome| outcome.latency_micros(50.0)).collect())
    }

    /// The median of the rounds' 99th percentiles, in microseconds.
    pub fn p99_micros(&self) -> f64 {
        median(self.0.iter().map(|outcome| outcome.latency_micros(99.0)).collect())
    }
}

/// Measures `workers` tasks for `span`, after some warm-up. Each task makes its job once and then
/// runs it again and again. The job gets the number of its earlier runs. On a very busy machine a
/// task continues after `span` until one run of its job was measured.
///
/// # Errors
/// The first error of any job.
pub async fn run<J, F, O>(workers: usize, span: Duration, make_job: J) -> Result<Outcome>
where
    J: Fn(usize) -> F,
    F: FnMut(u64) -> O + Send + 'static,
    O: Future<Output = Result<()>> + Send,
{
    run_paced(workers, span, Duration::ZERO, make_job).await
}

/// As [`run`], at a fixed rate: one operation is due every `interval`, and the workers take turns.
/// A worker whose last operation takes longer begins its next one late.
///
/// # Errors
/// The first error of any job.
pub async fn run_paced<J, F, O>(
    workers: usize,
    span: Duration,
    interval: Duration,
    make_job: J,
) -> Result<Outcome>
where
    J: Fn(usize) -> F,
    F: FnMut(u64) -> O + Send + 'static,
    O: Future<Output = Result<()>> + Send,
{
    let clock = Arc::new(SystemClock::default());
    let first = clock.monotonic();
    let begin = first + span.mul_f64(WARM_UP_SHARE);
    let end = begin + span;
    let tasks = (0..workers).map(|worker| {
        let (clock, mut job) = (Arc::clone(&clock), make_job(worker));
        let task = tokio::spawn(async move {
            let mut latencies = new_histogram()?;
            for n in 0.. {
                let turn = (n * workers as u64 + worker as u64) as f64;
                let due = first + interval.mul_f64(turn);
                let early = due.saturating_sub(clock.monotonic());
                if !early.is_zero() {
                    tokio::time::sleep(early).await;
                }
                let started = clock.monotonic();
                if started >= end && !latencies.is_empty() {
                    break;
                }
                job(n).await?;
                if started >= begin {
                    latencies.saturating_record((clock.monotonic() - started).as_nanos() as u64);
                }
            }
            Ok::<_, Error>(latencies)
        });
        async { task.await.unwrap_or_else(|error| Err(unmeasurable(error))) }
    });
    let mut latencies = new_histogram()?;
    for one in try_join_all(tasks).await? {
        latencies.add(one).map_err(unmeasurable)?;
    }
    let measured = clock.monotonic() - begin;
    Ok(Outcome { rate: latencies.len() as f64 / measured.as_secs_f64(), latencies })
}

fn new_histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_max(MAX_LATENCY_NANOS, 3).map_err(unmeasurable)
}

fn unmeasurable(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the measurement failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_measures_the_sides_in_reverse_order() {
        assert_eq!(in_turn(0, ["ours", "theirs"]), ["ours", "theirs"]);
        assert_eq!(in_turn(1, ["ours", "theirs"]), ["theirs", "ours"]);
        assert_eq!(in_turn(2, vec![1, 2, 3]), [1, 2, 3]);
        assert_eq!(in_turn(3, vec![1, 2, 3]), [3, 2, 1]);
    }
}
