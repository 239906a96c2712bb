//! The settings of tenants and devices. Admission or an operator chooses them.

use nacre_object::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::limits::{
    DEFAULT_QUEUE_BYTES, DEFAULT_QUEUE_REQUESTS, MAX_BUCKETS, MAX_WEIGHT, MIN_WEIGHT,
};
use crate::{IoKind, RateBurst};

/// How a tenant shares the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Share {
    /// The tenant has a promise for the traffic that passes these buckets.
    Promised {
        /// Lower numbers are served first.
        priority: u32,
        /// The tenant is within its limits if every bucket covers its next request.
        buckets: Vec<RateBurst>,
    },
    /// The tenant has no promise. It gets a part of the remaining capacity, by weight.
    Weighted {
        /// The tenant's work is to that of other such tenants as their weights.
        weight: f64,
    },
}

impl Share {
    /// The tenant's weight among others; 1 if it has a promise.
    pub fn weight(&self) -> f64 {
        match self {
            Self::Promised { .. } => 1.0,
            Self::Weighted { weight } => *weight,
        }
    }
}

/// The settings of a tenant at one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantSettings {
    /// Whether the tenant has a promise, and what it may use.
    pub share: Share,
    /// How many requests may wait. Further requests are refused.
    pub queue_requests: usize,
    /// How many bytes the waiting requests may have. The last request may exceed this number.
    pub queue_bytes: u64,
}

impl TenantSettings {
    /// A tenant with a promise.
    pub fn promised(priority: u32, buckets: Vec<RateBurst>) -> Self {
        Self::of(Share::Promised { priority, buckets })
    }

    /// A tenant without a promise.
    pub fn weighted(weight: f64) -> Self {
        Self::of(Share::Weighted { weight })
    }

    fn of(share: Share) -> Self {
        let (queue_requests, queue_bytes) = (DEFAULT_QUEUE_REQUESTS, DEFAULT_QUEUE_BYTES);
        Self { share, queue_requests, queue_bytes }
    }

    /// Checks the number and values of buckets, or the weight.
    pub(super) fn check(&self) -> Result<()> {
        match &self.share {
            Share::Promised { buckets, .. } => {
                let is_bucket =
                    |bucket: &RateBurst| bucket.is_valid() && bucket.burst_seconds > 0.0;
                if buckets.is_empty() || buckets.len() > MAX_BUCKETS {
                    return Err(Error::invalid(format!(
                        "the promise has {} token buckets; it must have from 1 to {MAX_BUCKETS}",
                        buckets.len()
                    )));
                }
                match buckets.iter().find(|bucket| !is_bucket(bucket)) {
                    None => Ok(()),
                    Some(RateBurst { rate, burst_seconds }) => Err(Error::invalid(format!(
                        "the token bucket with the rate {rate} and the burst {burst_seconds} s is invalid"
                    ))
                    .hint("give a rate from 0 and a burst above 0")),
                }
            }
            Share::Weighted { weight } => match (MIN_WEIGHT..=MAX_WEIGHT).contains(weight) {
                true => Ok(()),
                false => Err(Error::invalid(format!("the weight {weight} is out of range"))
                    .hint(format!("give a weight from {MIN_WEIGHT} to {MAX_WEIGHT}"))),
            },
        }
    }
}

/// How many requests of one kind, and how many bytes of them, may be outstanding at the device. The
/// last request may exceed the limit of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindLimits {
    /// Requests.
    pub requests: usize,
    /// Bytes of these requests.
    pub bytes: u64,
}

/// How many requests may be outstanding at a device. The device serves outstanding requests in its
/// own order, so without a limit priorities would have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLimits {
    /// The limits of reads.
    pub reads: KindLimits,
    /// The limits of writes.
    pub writes: KindLimits,
}

impl DeviceLimits {
    /// The limits for this kind of request.
    pub fn of(&self, kind: IoKind) -> KindLimits {
        match kind {
            IoKind::Read => self.reads,
            IoKind::Write => self.writes,
        }
    }

    /// How many requests of lower priority the device may serve before a new request: as many as
    /// may be outstanding.
    pub fn blocking_requests(&self) -> usize {
        self.reads.requests.saturating_add(self.writes.requests)
    }

    /// Whether at least one request of each kind may be outstanding.
    pub(super) fn check(&self) -> Result<()> {
        let is_limit = |limits: KindLimits| limits.requests > 0 && limits.bytes > 0;
        match IoKind::ALL.into_iter().all(|kind| is_limit(self.of(kind))) {
            true => Ok(()),
            false => Err(Error::invalid("the limits of the device allow no outstanding request")
                .hint("allow at least one request and one byte for reads and for writes")),
        }
    }
}

/// How a device makes writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// It commits each write by itself.
    #[default]
    Singly,
    /// One sync commits all writes that wait. The device serves reads at the same time.
    InGroups,
}

impl Commits {
    /// Whether the device commits each write by itself.
    pub fn are_single(&self) -> bool {
        *self == Self::Singly
    }

    /// How long a full device may delay a new request. The arguments are the work of all reads, and
    /// of all writes, that may be outstanding.
    ///
    /// A write is done when its group is synced. So a new write waits for the outstanding requests,
    /// and then for its own group. A group is at most as large as the writes that may be
    /// outstanding.
    pub fn blocking_seconds(self, reads_seconds: f64, writes_seconds: f64) -> f64 {
        let own_group = match self {
            Self::Singly => 0.0,
            Self::InGroups => writes_seconds,
        };
        reads_seconds + writes_seconds + own_group
    }
}

/// Which tenant is served first if several tenants within their limits have the same priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The tenant whose next request came within its limits first. The latency bound needs this.
    #[default]
    FirstCome,
    /// The tenants take turns, as in the SLO thesis. Then a tenant with small requests can wait for
    /// many large requests that arrived later, so its latency can exceed the bound.
    Turns,
}

impl Default for DeviceLimits {
    /// The limits in the papers' published code.
    fn default() -> Self {
        Self {
            reads: KindLimits { requests: 48, bytes: 3 << 19 },
            writes: KindLimits { requests: 96, bytes: 3 << 20 },
        }
    }
}
