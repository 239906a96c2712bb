//! The least service that a queue gives a flow.

use serde::{Deserialize, Serialize};

use super::RateBurst;

/// A queue that may be idle for `latency_seconds`, and then does `rate` seconds of work a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Seconds of work a second.
    pub rate: f64,
    /// The longest time without work.
    pub latency_seconds: f64,
}

impl Service {
    /// A device that starts to serve at once and does one second of work a second.
    pub const DEVICE: Self = Self { rate: 1.0, latency_seconds: 0.0 };

    /// The service that remains for other flows if `first` is always served first; `None` if none
    /// remains.
    pub fn left_over(self, first: RateBurst) -> Option<Self> {
        let rate = self.rate - first.rate;
        if rate.is_nan() || rate <= 0.0 {
            return None;
        }
        let waits = (first.burst_seconds + first.rate * self.latency_seconds) / rate;
        Some(Self { rate, latency_seconds: self.latency_seconds + waits })
    }

    /// The service of this queue followed by `next`.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            rate: self.rate.min(next.rate),
            latency_seconds: self.latency_seconds + next.latency_seconds,
        }
    }

    /// The longest time between the arrival and the completion of a request of this flow; `None` if
    /// there is no bound.
    pub fn delay(self, flow: RateBurst) -> Option<f64> {
        if !(self.rate > 0.0 && flow.rate <= self.rate) {
            return None;
        }
        let delay = self.latency_seconds + flow.burst_seconds / self.rate;
        delay.is_finite().then_some(delay)
    }
}
