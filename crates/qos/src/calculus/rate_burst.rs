//! A token bucket, and the traffic that it lets pass.

use serde::{Deserialize, Serialize};

use super::Service;

/// A token bucket. Traffic that conforms to it brings at most `burst + rate * t` seconds of work in
/// any time span `t`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateBurst {
    /// Seconds of work a second.
    pub rate: f64,
    /// Seconds of work that may come at once.
    pub burst_seconds: f64,
}

impl RateBurst {
    /// Whether the rate and the burst are finite numbers from 0.
    pub fn is_valid(&self) -> bool {
        let is_valid = |number: f64| number.is_finite() && number >= 0.0;
        is_valid(self.rate) && is_valid(self.burst_seconds)
    }

    /// The most work within so many seconds.
    pub fn work_within(&self, seconds: f64) -> f64 {
        self.burst_seconds + self.rate * seconds
    }

    /// Both flows together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rate: self.rate + other.rate,
            burst_seconds: self.burst_seconds + other.burst_seconds,
        }
    }

    /// The traffic that leaves this service. Its burst is larger, because requests that waited
    /// together leave together.
    #[must_use]
    pub fn after(self, service: Service) -> Self {
        let burst_seconds = self.burst_seconds + self.rate * service.latency_seconds;
        Self { burst_seconds, ..self }
    }
}
