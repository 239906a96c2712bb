//! What an operator, or admission, sets.

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
        /// Work in proportion to that of other such tenants.
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
    /// How it shares the target.
    pub share: Share,
    /// Requests that may wait. The next is refused.
    pub queue_requests: usize,
    /// The most bytes of waiting requests. The last request may exceed them.
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

    /// Whether the settings make sense.
    pub(super) fn check(&self) -> Result<()> {
        match &self.share {
            Share::Promised { buckets, .. } => {
                let is_bucket =
                    |bucket: &RateBurst| bucket.is_valid() && bucket.burst_seconds > 0.0;
                if buckets.is_empty() || buckets.len() > MAX_BUCKETS {
                    return Err(Error::invalid(format!(
                        "{} token buckets; a promise has from 1 to {MAX_BUCKETS}",
                        buckets.len()
                    )));
                }
                match buckets.iter().find(|bucket| !is_bucket(bucket)) {
                    None => Ok(()),
                    Some(RateBurst { rate, burst_seconds }) => Err(Error::invalid(format!(
                        "a token bucket with the rate {rate} and the burst {burst_seconds} s"
                    ))
                    .hint("a rate is a number from 0, a burst is above 0")),
                }
            }
            Share::Weighted { weight } => match (MIN_WEIGHT..=MAX_WEIGHT).contains(weight) {
                true => Ok(()),
                false => Err(Error::invalid(format!("the weight {weight}"))
                    .hint(format!("a weight is from {MIN_WEIGHT} to {MAX_WEIGHT}"))),
            },
        }
    }
}

/// How many requests of one kind, and how many bytes, may be outstanding at the device. The last
/// request may exceed the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindLimits {
    /// Requests.
    pub requests: usize,
    /// Bytes of these requests.
    pub bytes: u64,
}

/// How many requests may be outstanding at a device. Without a limit, priorities would have no
/// effect: the device serves its requests in its own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceLimits {
    /// Of reads.
    pub reads: KindLimits,
    /// Of writes.
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

    /// The most requests of lower priority that the device serves before a new request: all that
    /// may be outstanding.
    pub fn blocking_requests(&self) -> usize {
        self.reads.requests.saturating_add(self.writes.requests)
    }

    /// Whether at least one request of each kind may be outstanding.
    pub(super) fn check(&self) -> Result<()> {
        let is_limit = |limits: KindLimits| limits.requests > 0 && limits.bytes > 0;
        match IoKind::ALL.into_iter().all(|kind| is_limit(self.of(kind))) {
            true => Ok(()),
            false => Err(Error::invalid("a device that may have nothing outstanding")
                .hint("allow one request and one byte of each kind at least")),
        }
    }
}

/// How a device makes writes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// Each request is done by itself.
    #[default]
    Singly,
    /// One sync commits all writes that wait. Reads are served at the same time.
    InGroups,
}

impl Commits {
    /// Whether each request is done by itself.
    pub fn are_single(&self) -> bool {
        *self == Self::Singly
    }

    /// The longest time for which a full device delays a new request. The arguments are the work of
    /// all reads and of all writes that may be outstanding.
    ///
    /// A write is done when its group is done. So its own group delays the write, in addition to
    /// the requests that were outstanding when it came. A group is at most as large as the writes
    /// that may be outstanding.
    pub fn blocking_seconds(self, reads_seconds: f64, writes_seconds: f64) -> f64 {
        let own_group = match self {
            Self::Singly => 0.0,
            Self::InGroups => writes_seconds,
        };
        reads_seconds + writes_seconds + own_group
    }
}

/// Which tenant within its limits is next if priorities are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The tenant whose request has been within its limits longest goes first. The latency bound of
    /// equal priorities needs this.
    #[default]
    FirstCome,
    /// The tenants take turns, as in the thesis. Then a tenant with small requests can wait for
    /// many large requests that came later, so its latency can exceed the bound.
    Turns,
}

impl Default for DeviceLimits {
    /// The limits of the public enforcer.
    fn default() -> Self {
        Self {
            reads: KindLimits { requests: 48, bytes: 3 << 19 },
            writes: KindLimits { requests: 96, bytes: 3 << 20 },
        }
    }
}
