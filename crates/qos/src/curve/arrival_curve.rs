//! A concave arrival curve of straight segments.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{leaky_bucket, prune};
use crate::WorkTrace;
use crate::calculus::{RateBurst, Service};
use crate::limits::{CURVE_RATES, MAX_CURVE_SEGMENTS};

/// A straight piece of an arrival curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The length of the time span at which the segment begins.
    pub start_seconds: f64,
    /// The most work in a time span of that length.
    pub work_seconds: f64,
    /// Seconds of work for each further second.
    pub rate: f64,
}

impl Segment {
    /// The line that the segment is a part of.
    pub fn line(&self) -> RateBurst {
        let burst_seconds = self.work_seconds - self.rate * self.start_seconds;
        RateBurst { rate: self.rate, burst_seconds }
    }
}

/// The most work that a flow (a tenant's traffic at one target) brings in any time span of a given
/// length. The curve is the minimum of its lines.
///
/// **Invariant:** there is at least one line. From each line to the next, the rate falls and the
/// burst grows. Each line is the lowest one for some length of time span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Segments", into = "Segments")]
pub struct ArrivalCurve {
    lines: Vec<RateBurst>,
}

/// The JSON form of a curve.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Segments {
    segments: Vec<Segment>,
}

impl ArrivalCurve {
    /// Computes the curve of a trace's work on one device, with a limited number of segments.
    ///
    /// # Errors
    /// `Invalid` if all requests came at the same time, or if none of them needs any work.
    pub fn of_trace(trace: &WorkTrace) -> Result<Self> {
        let least = trace.least_rate()?;
        let bursts = leaky_bucket::bursts(trace.arrivals(), &rates(least));
        Ok(Self::lower_envelope(&bursts)?.pruned(MAX_CURVE_SEGMENTS))
    }

    /// Creates the curve that is the minimum of these lines.
    ///
    /// # Errors
    /// `Invalid` if there are no lines, or if a rate or a burst is not a finite number from 0.
    pub fn lower_envelope(lines: &[RateBurst]) -> Result<Self> {
        if lines.is_empty() {
            return Err(Error::invalid(
                "an arrival curve needs at least one segment, and this one has none",
            ));
        }
        if let Some(line) = lines.iter().find(|line| !line.is_valid()) {
            return Err(Error::invalid(format!(
                "the segment with rate {} and burst {} s is invalid: both must be finite and not negative",
                line.rate, line.burst_seconds
            )));
        }
        let mut sorted = lines.to_vec();
        sorted.sort_by(|one, other| {
            other.rate.total_cmp(&one.rate).then(one.burst_seconds.total_cmp(&other.burst_seconds))
        });
        let mut hull: Vec<RateBurst> = vec![];
        for line in sorted {
            // The new line is below `last` everywhere: it rises more slowly, and does not start
            // higher.
            while hull.last().is_some_and(|last| is_at_most(line.burst_seconds, last.burst_seconds))
            {
                hull.pop();
            }
            if hull.last().is_some_and(|last| last.rate == line.rate) {
                continue;
            }
            while let [.., before, last] = hull[..]
                && is_at_most(crossing(before, line), crossing(before, last))
            {
                hull.pop();
            }
            hull.push(line);
        }
        Ok(Self { lines: hull })
    }

    /// A curve with at most this many segments that lies nowhere below this curve.
    #[must_use]
    pub fn pruned(&self, segments: usize) -> Self {
        Self { lines: prune::pruned(self.segments(), segments) }
    }

    /// The lines of the curve, from the steepest to the flattest.
    pub fn lines(&self) -> &[RateBurst] {
        &self.lines
    }

    /// The segments of the curve, from left to right.
    pub fn segments(&self) -> Vec<Segment> {
        let starts = std::iter::once(0.0)
            .chain(self.lines.windows(2).map(|pair| crossing(pair[0], pair[1])));
        let segment = |(line, start_seconds): (&RateBurst, f64)| Segment {
            start_seconds,
            work_seconds: line.work_within(start_seconds),
            rate: line.rate,
        };
        self.lines.iter().zip(starts).map(segment).collect()
    }

    /// The most work within so many seconds.
    pub fn work_within(&self, seconds: f64) -> f64 {
        self.lines.iter().map(|line| line.work_within(seconds)).fold(f64::INFINITY, f64::min)
    }

    /// The curve of two flows together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let both = |one: &RateBurst| {
            let one = *one;
            other.lines.iter().map(move |line| RateBurst {
                rate: one.rate + line.rate,
                burst_seconds: one.burst_seconds + line.burst_seconds,
            })
        };
        let lines: Vec<_> = self.lines.iter().flat_map(both).collect();
        // Sums of valid lines are valid.
        Self::lower_envelope(&lines)
            .map_or_else(|_| self.clone(), |sum| sum.pruned(MAX_CURVE_SEGMENTS))
    }

    /// The average rate of the flow in the long run.
    pub fn least_rate(&self) -> f64 {
        self.lines.last().map_or(f64::NAN, |line| line.rate)
    }

    /// The smallest burst with which a token bucket of this rate never delays the flow. `None` if
    /// the flow's own rate is higher. The *r-b curve* of the flow gives this burst for each rate.
    pub fn burst_at(&self, rate: f64) -> Option<f64> {
        let steeper = self.lines.partition_point(|line| line.rate >= rate);
        if rate.is_nan() {
            return None;
        }
        match (steeper.checked_sub(1).map(|at| self.lines[at]), self.lines.get(steeper)) {
            (None, first) => first.map(|first| first.burst_seconds),
            (Some(last), None) => (last.rate == rate).then_some(last.burst_seconds),
            (Some(high), Some(low)) => {
                let share = (high.rate - rate) / (high.rate - low.rate);
                Some(high.burst_seconds + share * (low.burst_seconds - high.burst_seconds))
            }
        }
    }

    /// The curve whose r-b curve is the maximum of the two r-b curves.
    #[must_use]
    pub fn or_more(&self, other: &Self) -> Self {
        let rates = self.lines.iter().chain(&other.lines).map(|line| line.rate);
        let least = self.least_rate().max(other.least_rate());
        let mut lines: Vec<_> = rates
            .chain([least])
            .filter_map(|rate| {
                let burst = self.burst_at(rate)?.max(other.burst_at(rate)?);
                Some(RateBurst { rate, burst_seconds: burst })
            })
            .collect();
        // Between two neighbouring rates of this list, the two r-b curves may cross. The result
        // joins the two rates by a straight line. The maximum of the two curves lies below that
        // line, because it is convex, as both curves are.
        lines.dedup();
        Self::lower_envelope(&lines).unwrap_or_else(|_| self.clone())
    }

    /// The longest time for which a token bucket delays a request of the flow; `None` if there is
    /// no bound. It is 0 if the burst is at least the one that [`burst_at`](Self::burst_at) returns
    /// for the rate.
    pub fn shaper_delay(&self, bucket: RateBurst) -> Option<f64> {
        self.gap(bucket.rate, |work| (work - bucket.burst_seconds) / bucket.rate)
    }

    /// The longest time from the arrival of a request of the flow until this service has completed
    /// it; `None` if there is no bound.
    pub fn service_delay(&self, service: Service) -> Option<f64> {
        self.gap(service.rate, |work| service.latency_seconds + work / service.rate)
    }

    /// The largest horizontal distance (the delay) from this curve to a service curve. `done_after`
    /// returns the time at which the service has done a given amount of work. Both curves are
    /// straight between corners, so the distance is largest at a corner.
    fn gap(&self, rate: f64, done_after: impl Fn(f64) -> f64) -> Option<f64> {
        if !(rate > 0.0 && self.least_rate() <= rate) {
            return None;
        }
        let gaps =
            self.segments().into_iter().map(|Segment { start_seconds, work_seconds, .. }| {
                done_after(work_seconds) - start_seconds
            });
        let mut longest = 0.0;
        for gap in gaps {
            if gap.is_nan() {
                return None;
            }
            longest = f64::max(longest, gap);
        }
        Some(longest)
    }
}

/// Whether `one` is at most `other`, apart from rounding. If two segments differ only by rounding,
/// a curve that is stored and read back may no longer be concave. Merging such segments raises the
/// curve by at most a billionth.
fn is_at_most(one: f64, other: f64) -> bool {
    one <= other * (1.0 + 1e-9)
}

/// The length of time span for which two lines have the same work. `steep` is the steeper line.
fn crossing(steep: RateBurst, flat: RateBurst) -> f64 {
    (flat.burst_seconds - steep.burst_seconds) / (steep.rate - flat.rate)
}

/// Equidistant rates from 1, the capacity of a device, down to `least`, the average rate of a
/// trace.
fn rates(least: f64) -> Vec<f64> {
    if least >= 1.0 {
        return vec![least];
    }
    let step = (1.0 - least) / (CURVE_RATES - 1) as f64;
    let mut rates: Vec<_> = (0..CURVE_RATES).map(|at| 1.0 - step * at as f64).collect();
    // Rounding must not take the last rate below the least.
    if let Some(last) = rates.last_mut() {
        *last = least;
    }
    rates
}

impl TryFrom<Segments> for ArrivalCurve {
    type Error = Error;

    fn try_from(Segments { segments }: Segments) -> Result<Self> {
        let begins_at_zero = segments.first().is_none_or(|first| first.start_seconds == 0.0);
        if !begins_at_zero || !segments.windows(2).all(|pair| is_concave(pair[0], pair[1])) {
            return Err(Error::invalid("the segments do not make a concave curve")
                .hint("begin each segment where the last one ends, later and with a lower rate"));
        }
        let lines: Vec<_> = segments.iter().map(Segment::line).collect();
        Self::lower_envelope(&lines)
    }
}

/// Whether `next` continues `segment` as a concave curve. A tolerance allows for rounded decimal
/// numbers.
fn is_concave(segment: Segment, next: Segment) -> bool {
    let end = segment.line().work_within(next.start_seconds);
    segment.start_seconds < next.start_seconds
        && segment.rate > next.rate
        && (end - next.work_seconds).abs() <= 1e-9 * end.max(1.0)
}

impl From<ArrivalCurve> for Segments {
    fn from(curve: ArrivalCurve) -> Self {
        Self { segments: curve.segments() }
    }
}
