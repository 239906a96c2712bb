//! `Meter`: latencies and missed promises of one tenant at one target.

use std::time::Duration;

use nacre_object::{TargetName, TenantName};
use serde::{Deserialize, Serialize};

use super::latency_histogram::LatencyHistogram;
use crate::limits::MAX_QUEUE_WAIT;
use crate::windows::LatencyWindows;

/// Why a request took longer than its tenant was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissCause {
    /// Promises are not enforced at present.
    NotEnforced,
    /// The tenant asked for more than its token bucket allows.
    OutsideEnvelope,
    /// The target was busy with requests that passed no gateway.
    DirectTraffic,
    /// The target was slower than its profile says.
    ProfileDrifted,
    /// The target was busy with work outside the queues: compaction, other processes, or clients of
    /// another cluster.
    Background,
}

impl MissCause {
    /// The cause in words, for the cluster log.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::NotEnforced => "promises are not enforced",
            Self::OutsideEnvelope => "the tenant asked for more than it was promised",
            Self::DirectTraffic => "clients that pass no gateway keep the target busy",
            Self::ProfileDrifted => "the target is slower than its profile: measure it again",
            Self::Background => "the target was busy with work that no queue orders",
        }
    }
}

/// The missed promises of one tenant at one target since the last call of `take_misses`.
#[derive(Debug, Clone, PartialEq)]
pub struct Miss {
    /// The tenant.
    pub tenant: TenantName,
    /// The target.
    pub target: TargetName,
    /// The promised latency.
    pub slo_seconds: f64,
    /// How many requests took longer than promised.
    pub requests: u64,
    /// How many requests there were in all.
    pub of_requests: u64,
    /// The longest latency.
    pub worst_seconds: f64,
    /// The most frequent cause of the misses.
    pub cause: MissCause,
}

/// Latencies and missed promises of one tenant at one target.
#[derive(Debug, Default)]
pub(super) struct Meter {
    pub windows: LatencyWindows,
    pub total: LatencyHistogram,
    pub requests: u64,
    pub within: u64,
    pub refused: u64,
    pub misses: u64,
    /// The work of its requests, in seconds.
    pub work_seconds: f64,
    untold: Untold,
}

#[derive(Debug, Default)]
struct Untold {
    requests: u64,
    worst: Duration,
    /// The number of misses for each [`MissCause`].
    causes: [u64; 5],
}

impl Meter {
    /// Counts a request that was answered after `latency`.
    pub fn record(&mut self, latency: Duration, was_within: bool, now: Duration) {
        self.windows.record(latency, now);
        self.total.record(latency);
        self.requests += 1;
        self.within += u64::from(was_within);
        self.untold.requests += 1;
    }

    /// Counts the last recorded request as a missed promise.
    pub fn miss(&mut self, latency: Duration, cause: MissCause) {
        self.misses += 1;
        self.untold.worst = self.untold.worst.max(latency);
        self.untold.causes[cause as usize] += 1;
    }

    /// Counts a refused request. If the tenant has a promise, the refusal is a missed promise that
    /// the tenant itself caused: the queue has room for all requests that the promise covers.
    pub fn refuse(&mut self, is_promised: bool) {
        self.refused += 1;
        self.untold.requests += 1;
        if is_promised {
            self.miss(MAX_QUEUE_WAIT, MissCause::OutsideEnvelope);
        }
    }

    /// Returns and resets what was counted since the last call: requests, misses, longest latency
    /// and most frequent cause of misses. `None` if there was no miss.
    pub fn take_untold(&mut self) -> Option<(u64, u64, Duration, MissCause)> {
        const ALL: [MissCause; 5] = [
            MissCause::NotEnforced,
            MissCause::OutsideEnvelope,
            MissCause::DirectTraffic,
            MissCause::ProfileDrifted,
            MissCause::Background,
        ];
        let Untold { requests, worst, causes } = std::mem::take(&mut self.untold);
        let misses = causes.iter().sum::<u64>();
        let cause = ALL.into_iter().max_by_key(|cause| causes[*cause as usize])?;
        (misses > 0).then_some((requests, misses, worst, cause))
    }
}
