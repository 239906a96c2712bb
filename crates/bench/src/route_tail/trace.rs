//! The trace that `route-tail` plays: three volumes, one of which bursts. It follows from a seed.
//!
//! Requests of a volume arrive independently of each other (a Poisson process), and half of them are
//! writes. Outside the burst, the volume that bursts has the rate of the median volume. In the
//! burst it has [`BURST_FACTOR`] times the rate of the least loaded volume: two orders of magnitude,
//! as in figure 6 of the sRoute paper.

use std::ops::Range;
use std::time::Duration;

use nacre_clock::Random;

/// How many volumes there are. Each lies on a target of its own.
pub(super) const VOLUMES: usize = 3;
/// The volume that bursts, by its number.
pub(super) const BURSTING: usize = 0;
/// The requests a second of the least loaded volume.
const LEAST_RATE: f64 = 5.0;
/// The requests a second of the median volume, and of the one that bursts outside its burst.
pub(super) const MEDIAN_RATE: f64 = 20.0;
/// How many times the load of the least loaded volume the burst is.
const BURST_FACTOR: f64 = 100.0;
/// The objects of each volume.
pub(super) const OBJECTS: usize = 256;
/// The blocks of each object. A request is about one block.
pub(super) const BLOCKS: u64 = 2;
/// How long the trace runs before the burst begins. The control program needs some of this time to
/// learn the usual rate.
const BEFORE: Duration = Duration::from_secs(5);
/// How long the trace runs after the burst.
const AFTER: Duration = Duration::from_secs(3);
/// How long a gradual burst grows until it has its greatest rate.
const GROWTH: Duration = Duration::from_secs(10);
const SEED: u64 = 7;

/// How a burst begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onset {
    /// The rate grows by the same factor in each second, for [`GROWTH`].
    Gradual,
    /// The rate jumps.
    Sudden,
}

impl Onset {
    /// The word for it in the name of a figure.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Gradual => "gradual",
            Self::Sudden => "sudden",
        }
    }
}

/// A request of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TraceRequest {
    /// When it is due, since the beginning of the trace.
    pub due: Duration,
    pub volume: usize,
    /// The number of its object, among those of the volume.
    pub object: usize,
    pub block: u64,
    pub is_write: bool,
}

/// A trace.
#[derive(Debug)]
pub(super) struct Trace {
    /// By their due times.
    pub requests: Vec<TraceRequest>,
    /// When the burst begins and ends.
    pub burst: Range<Duration>,
}

impl Trace {
    /// The trace with a burst that has its greatest rate for `peak`.
    pub(super) fn generate(onset: Onset, peak: Duration) -> Self {
        let growth = if onset == Onset::Gradual { GROWTH } else { Duration::ZERO };
        let burst = BEFORE..BEFORE + growth + peak;
        let end = burst.end + AFTER;
        let mut requests = vec![];
        for volume in 0..VOLUMES {
            let mut random = Random::seeded(SEED + volume as u64);
            let mut at = 0.0;
            loop {
                at += exponential(&mut random) / rate(volume, at, &burst, growth);
                if at >= end.as_secs_f64() {
                    break;
                }
                requests.push(TraceRequest {
                    due: Duration::from_secs_f64(at),
                    volume,
                    object: random.below(OBJECTS as u64) as usize,
                    block: random.below(BLOCKS),
                    is_write: random.one_in(2),
                });
            }
        }
        requests.sort_by_key(|request| request.due);
        Self { requests, burst }
    }
}

/// The requests a second of a volume at a time of the trace.
fn rate(volume: usize, at: f64, burst: &Range<Duration>, growth: Duration) -> f64 {
    let (from, to) = (burst.start.as_secs_f64(), burst.end.as_secs_f64());
    match volume {
        BURSTING if at < from || at >= to => MEDIAN_RATE,
        BURSTING => {
            let most = LEAST_RATE * BURST_FACTOR;
            let part = (at - from) / growth.as_secs_f64();
            // Without growth, the part is infinite or, at the very beginning, no number.
            let part = if part < 1.0 { part } else { 1.0 };
            MEDIAN_RATE * (most / MEDIAN_RATE).powf(part)
        }
        1 => MEDIAN_RATE,
        _ => LEAST_RATE,
    }
}

/// A number of the exponential distribution with the mean 1.
fn exponential(random: &mut Random) -> f64 {
    let uniform = (random.below(1 << 32) as f64 + 1.0) / (1_u64 << 32) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(trace: &Trace, volume: usize, seconds: Range<u64>) -> usize {
        let is_in =
            |one: &&TraceRequest| one.volume == volume && seconds.contains(&one.due.as_secs());
        trace.requests.iter().filter(is_in).count()
    }

    #[test]
    fn a_burst_is_two_orders_of_magnitude_above_the_least_loaded_volume() {
        let trace = Trace::generate(Onset::Sudden, Duration::from_secs(20));
        let (least, burst) = (count(&trace, 2, 5..25), count(&trace, BURSTING, 5..25));
        assert!((60..140).contains(&least) && (9_500..10_500).contains(&burst), "{least} {burst}");
        let usual = count(&trace, BURSTING, 0..5) + count(&trace, BURSTING, 25..28);
        assert!((110..220).contains(&usual), "{usual}");
        assert!(trace.requests.is_sorted_by_key(|request| request.due));
    }

    #[test]
    fn a_gradual_burst_grows_by_the_same_factor_in_each_second() {
        let trace = Trace::generate(Onset::Gradual, Duration::from_secs(10));
        let counts = [7, 11, 14, 20].map(|second| count(&trace, BURSTING, second..second + 1));
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(trace.burst, Duration::from_secs(5)..Duration::from_secs(25));
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let generate = || Trace::generate(Onset::Gradual, Duration::from_secs(2)).requests;
        assert_eq!(generate(), generate());
    }
}
