//! Bounds the probability that a request is late, if tenants are independent and only their token
//! buckets are known. Admission uses it for stochastic promises.
//!
//! The deterministic bound assumes that all tenants burst at once. [`late_probability`] bounds how
//! often independent tenants do so. It needs no model of their traffic. A flow with the bucket `(r,
//! b)` brings at most `b + r t` in any time `t`, and `r t` on average. Among all such flows, one
//! has the greatest mean of `exp(theta * work)`: it brings either `b + r t` or nothing. That mean
//! is
//!
//! ```text
//! 1 + r t / (b + r t) * (exp(theta (b + r t)) - 1)
//! ```
//!
//! This is the bound of Boorstyn, Burchard, Liebeherr and Oottamakorn (*Statistical service
//! assurances for traffic scheduling algorithms*). The time before the request is cut into spans.
//! For each span, Chernoff's bound with the best `theta` limits the probability that the flows have
//! brought too much work since its start. The result is the sum of these probabilities.
//!
//! The late request's own flow may send in bursts, so its bucket counts in full.
//!
//! **Invariant:** if a number is invalid, the probability is 1.

use super::RateBurst;

/// The length of the first spans, as a part of the latency.
const FIRST_SPAN: f64 = 1.0 / 32.0;
/// The bounds of the length of the spans before the first ones, as fractions of the time between
/// the span and the request.
const GROWTH: (f64, f64) = (0.01, 0.125);
/// The most spans. A queue needs fewer unless its load is close to its capacity.
const MAX_SPANS: usize = 4096;
/// The number of steps in the golden-section search for the best `theta` of Chernoff's bound. Each
/// step narrows the range to 0.62 of its length.
const THETA_STEPS: usize = 32;
/// The search for `theta` of Chernoff's bound begins at this number divided by the work that the
/// queue can do in time. It ends at [`MOST_THETA`] divided by the work of the smallest flow.
const LEAST_THETA: f64 = 1e-2;
/// With this limit, the search finds the best `theta` for probabilities of `exp(-50)` or more.
const MOST_THETA: f64 = 50.0;
/// Exponentials of more than this are not computed.
const LARGE_EXPONENT: f64 = 50.0;

/// A queue that does one second of work a second, with all flows that it may serve before a request
/// of the flow `own`.
#[derive(Debug, Clone, Copy)]
pub struct SharedQueue<'a> {
    /// The longest time for which requests of lower priority keep the queue busy.
    pub blocking_seconds: f64,
    /// The sum of the flows that are served first and may depend on each other. All of them may
    /// burst at the worst time.
    pub certain: RateBurst,
    /// Independent flows that are served first.
    pub higher: &'a [RateBurst],
    /// Independent flows of the same priority.
    pub equals: &'a [RateBurst],
    /// The flow of the request.
    pub own: RateBurst,
}

/// The most work of an independent flow in a time span, and the probability that it comes.
#[derive(Debug, Clone, Copy)]
struct AllOrNothing {
    work_seconds: f64,
    probability: f64,
}

impl AllOrNothing {
    fn of(flow: &RateBurst, seconds: f64) -> Self {
        let work_seconds = flow.work_within(seconds);
        let probability = if work_seconds > 0.0 { flow.rate * seconds / work_seconds } else { 0.0 };
        Self { work_seconds, probability }
    }

    /// The logarithm of the mean of `exp(theta * work)`.
    fn log_mean(&self, theta: f64) -> f64 {
        let exponent = theta * self.work_seconds;
        if exponent <= LARGE_EXPONENT {
            return (self.probability * exponent.exp_m1()).ln_1p();
        }
        // The same value, computed without numbers that overflow.
        let all = exponent + self.probability.ln();
        match all > 0.0 {
            true => all + ((1.0 - self.probability) * (-all).exp()).ln_1p(),
            false => (all.exp() - self.probability).ln_1p(),
        }
    }
}

impl SharedQueue<'_> {
    fn all(&self) -> RateBurst {
        let independent = self.higher.iter().chain(self.equals);
        let sum = independent.fold(self.certain, |sum, flow| sum.plus(*flow));
        sum.plus(self.own)
    }

    /// Bounds the probability that the flows overload the queue over one span of time, which lasts
    /// from `back` to `after` seconds before the request. It counts work from the start of the span
    /// on, but service only from the end of the span on. So the bound is never too low.
    fn is_too_much(&self, back: f64, after: f64, latency: f64) -> f64 {
        let certain = self.certain.work_within(back + latency) + self.own.work_within(back);
        let room = after + latency - self.blocking_seconds - certain;
        if room.is_nan() || room < 0.0 {
            return 1.0;
        }
        let higher = self.higher.iter().map(|flow| AllOrNothing::of(flow, back + latency));
        let equals = self.equals.iter().map(|flow| AllOrNothing::of(flow, back));
        let flows: Vec<_> = higher.chain(equals).filter(|flow| flow.work_seconds > 0.0).collect();
        let most: f64 = flows.iter().map(|flow| flow.work_seconds).sum();
        match most <= room {
            true => 0.0,
            false => chernoff(&flows, room),
        }
    }
}

/// Bounds the probability that independent flows bring more than `room` seconds of work.
fn chernoff(flows: &[AllOrNothing], room: f64) -> f64 {
    /// The golden section.
    const SECTION: f64 = 0.618_033_988_749_894_9;
    let least = flows.iter().map(|flow| flow.work_seconds).fold(f64::INFINITY, f64::min);
    let exponent = |log_theta: f64| {
        let theta = log_theta.exp();
        flows.iter().map(|flow| flow.log_mean(theta)).sum::<f64>() - theta * room
    };
    let (mut low, mut high) = ((LEAST_THETA / room.max(least)).ln(), (MOST_THETA / least).ln());
    let mut best = 0.0_f64;
    for _ in 0..THETA_STEPS {
        let width = (high - low) * SECTION;
        let (left, right) = (high - width, low + width);
        let (at_left, at_right) = (exponent(left), exponent(right));
        best = best.min(at_left).min(at_right);
        match at_left < at_right {
            true => high = right,
            false => low = left,
        }
    }
    best.exp()
}

/// An upper bound on the probability that a request takes longer than a latency.
pub fn late_probability(queue: &SharedQueue<'_>, latency_seconds: f64) -> f64 {
    let all = queue.all();
    let is_stable = all.is_valid() && all.rate < 1.0 && queue.blocking_seconds >= 0.0;
    if !(is_stable && latency_seconds > 0.0 && latency_seconds.is_finite()) {
        return 1.0;
    }
    let growth = ((1.0 - all.rate) / 2.0).clamp(GROWTH.0, GROWTH.1);
    let (mut after, mut sum) = (0.0, 0.0);
    for _ in 0..MAX_SPANS {
        let back = after + (latency_seconds * FIRST_SPAN).max(after * growth);
        sum += queue.is_too_much(back, after, latency_seconds);
        if sum.is_nan() || sum >= 1.0 {
            return 1.0;
        }
        let most = all.work_within(back) + latency_seconds * rate_of(queue.higher, queue.certain);
        // The loop goes back in time from the request. From here on it can stop: even if all flows
        // burst together in an earlier span, the queue does their work before the request is late.
        // So earlier spans add nothing to the probability.
        if queue.blocking_seconds + most <= after + latency_seconds {
            return sum;
        }
        after = back;
    }
    1.0
}

/// The rate of all flows that are served before a waiting request.
fn rate_of(higher: &[RateBurst], certain: RateBurst) -> f64 {
    higher.iter().fold(certain, |sum, flow| sum.plus(*flow)).rate
}
