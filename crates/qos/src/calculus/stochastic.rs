//! Stochastic network calculus: bounds on a latency that only a stated fraction of requests
//! exceeds.
//!
//! The deterministic bound assumes that all tenants burst at once, which is rare if tenants are
//! independent. So admission accepts more tenants by [`violation_probability`] than by
//! [`queue_delays`](super::queue_delays). The idea is that of SNC-Meister.
//!
//! Time is cut into slots. A [`MarkovSource`] is on or off in each slot. In each slot in which it
//! is on, it brings the same amount of work, at the start of the slot. For each `theta > 0`, the
//! mean of `exp(theta * work of n slots)` is at most `prefactor * growth^n`. For every `n`, this
//! bounds the probability that the last `n` slots brought too much work. The result is the sum of
//! these probabilities, with the best `theta`.
//!
//! **Invariant:** if a number is invalid, the probability is 1.

use nacre_object::{Error, Result};

use crate::WorkTrace;
use crate::limits::MAX_SLOTS;

/// The tried values of `theta`: `2^(n/4)` divided by the largest work of a slot, for each `n` in
/// this range.
const THETA_QUARTERS: std::ops::Range<i32> = -48..20;
/// The number of steps in the search for a latency. The result is exact to a thousandth of the
/// longest latency that is tried.
const SEARCH_STEPS: usize = 40;

/// A source of work that is on or off in each slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarkovSource {
    start: f64,
    stop: f64,
    slot_work_seconds: f64,
}

/// The growth of the mean of `exp(theta * work)` with the number of slots.
#[derive(Debug, Clone, Copy)]
struct Growth {
    /// The factor of each slot.
    factor: f64,
    /// The prefactor at the end of any slot.
    prefactor: f64,
    /// The prefactor at the end of a slot in which the source is on.
    prefactor_on: f64,
}

impl MarkovSource {
    /// Creates a source. `start` is the probability that an idle source is on in the next slot, and
    /// `stop` the probability that an active source is off in the next slot.
    ///
    /// # Errors
    /// `Invalid` if a probability is not above 0 and at most 1, or if the work is not above 0.
    pub fn new(start: f64, stop: f64, slot_work_seconds: f64) -> Result<Self> {
        let is_probability = |number: f64| number > 0.0 && number <= 1.0;
        let is_work = slot_work_seconds.is_finite() && slot_work_seconds > 0.0;
        match is_probability(start) && is_probability(stop) && is_work {
            true => Ok(Self { start, stop, slot_work_seconds }),
            false => Err(Error::invalid(format!(
                "a source needs probabilities above 0 and at most 1, and work above 0 s in a slot; got start {start}, stop {stop} and {slot_work_seconds} s"
            ))),
        }
    }

    /// Creates a source that models a trace. It is on in the slots that have requests. In each of
    /// them it brings the work of the busiest slot.
    ///
    /// # Errors
    /// `Invalid` if the trace has requests in all slots or in none, or if it has too many slots.
    pub fn of_trace(trace: &WorkTrace, slot_seconds: f64) -> Result<Self> {
        let slots = trace.duration_seconds() / slot_seconds;
        let is_count = slots >= 0.0 && slots <= MAX_SLOTS as f64;
        if !is_count {
            return Err(Error::invalid(format!(
                "the trace has {slots} slots, more than {MAX_SLOTS}"
            ))
            .hint("choose longer slots"));
        }
        let mut works = vec![0.0; slots as usize + 2];
        let first = trace.arrivals().first().map_or(0.0, |arrival| arrival.at_seconds);
        for arrival in trace.arrivals() {
            // Rounding must not move a request at the start of a slot into the slot before it.
            let slot = ((arrival.at_seconds - first) / slot_seconds + 1e-6) as usize;
            if let Some(work) = works.get_mut(slot) {
                *work += arrival.work_seconds;
            }
        }
        let count = |from: bool, to: bool| {
            let pairs = works.windows(2);
            pairs.filter(|pair| (pair[0] > 0.0) == from && (pair[1] > 0.0) == to).count() as f64
        };
        let start = count(false, true) / (count(false, true) + count(false, false));
        let stop = count(true, false) / (count(true, false) + count(true, true));
        Self::new(start, stop, works.into_iter().fold(0.0, f64::max))
    }

    /// The fraction of slots in which the source is on.
    pub fn on_share(&self) -> f64 {
        self.start / (self.start + self.stop)
    }

    fn growth(&self, theta: f64) -> Growth {
        let lift = (theta * self.slot_work_seconds).exp();
        let (stays_off, stays_on) = (1.0 - self.start, (1.0 - self.stop) * lift);
        let trace = stays_off + stays_on;
        let determinant = stays_off * stays_on - self.start * self.stop * lift;
        // The larger eigenvalue of the chain's matrix, with the column of "on" times `lift`.
        let factor = f64::midpoint(trace, (trace * trace - 4.0 * determinant).sqrt());
        // Its eigenvector is (1, on).
        let on = (factor - stays_off) / (self.start * lift);
        let least = on.min(1.0);
        let share = self.on_share();
        Growth {
            factor,
            prefactor: (1.0 - share + share * on) / least,
            prefactor_on: lift * on / (least * factor),
        }
    }
}

/// A queue that does one second of work a second, and the sources that share it.
#[derive(Debug, Clone, Copy)]
pub struct StochasticQueue<'a> {
    /// The length of a slot.
    pub slot_seconds: f64,
    /// The longest time for which requests of lower priority keep the queue busy.
    pub blocking_seconds: f64,
    /// The sources that are served first.
    pub higher: &'a [MarkovSource],
    /// Other sources of the same priority.
    pub equals: &'a [MarkovSource],
    /// The source whose requests the latency is computed for.
    pub own: MarkovSource,
}

/// An upper bound on the probability that a request of `queue.own` takes longer than the latency.
pub fn violation_probability(queue: &StochasticQueue<'_>, latency_seconds: f64) -> f64 {
    let sources = queue.higher.iter().chain(queue.equals).chain([&queue.own]);
    let most = sources.map(|source| source.slot_work_seconds).fold(0.0, f64::max);
    let probabilities = THETA_QUARTERS.filter_map(|quarter| {
        let theta = (f64::from(quarter) / 4.0).exp2() / most;
        let probability = violation_at(queue, theta, latency_seconds);
        (probability >= 0.0).then_some(probability)
    });
    probabilities.fold(1.0, f64::min)
}

/// The bound on the probability for one value of `theta`. It is NaN if the sources bring more work
/// than the queue can do.
fn violation_at(queue: &StochasticQueue<'_>, theta: f64, latency_seconds: f64) -> f64 {
    let own = queue.own.growth(theta);
    let (mut factor, mut prefactor) = (own.factor, own.prefactor_on);
    for source in queue.equals {
        let growth = source.growth(theta);
        factor *= growth.factor;
        prefactor *= growth.prefactor;
    }
    // Requests of higher priority that come while the request waits are served before it, too.
    let waited_slots = (latency_seconds / queue.slot_seconds).ceil() + 1.0;
    for source in queue.higher {
        let growth = source.growth(theta);
        factor *= growth.factor;
        prefactor *= growth.prefactor * growth.factor.powf(waited_slots);
    }
    let served = (-theta * queue.slot_seconds).exp();
    let left = 1.0 - factor * served;
    if left.is_nan() || left <= 0.0 {
        return f64::NAN;
    }
    // The queue has `n - 1` slots plus the latency to do the work of `n` slots.
    let done = (-theta * (latency_seconds - queue.blocking_seconds)).exp();
    prefactor * factor * done / left
}

/// The lowest latency, up to `longest_seconds`, that requests exceed with at most this probability.
pub fn latency_with_probability(
    queue: &StochasticQueue<'_>,
    probability: f64,
    longest_seconds: f64,
) -> Option<f64> {
    let holds = |latency: f64| violation_probability(queue, latency) <= probability;
    if !holds(longest_seconds) {
        return None;
    }
    let (mut low, mut high) = (0.0, longest_seconds);
    for _ in 0..SEARCH_STEPS {
        let middle = f64::midpoint(low, high);
        match holds(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}
