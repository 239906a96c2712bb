//! `Parts`: the fraction of each promise that one of several gateways uses.

use std::collections::BTreeMap;
use std::time::Duration;

use nacre_object::{TargetName, TenantName};
use nacre_qos::RateBurst;
use nacre_qos::scheduler::{DeviceLimits, KindLimits};
use nacre_qos::sharing::{Claim, Shared};

/// The fractions that a gateway uses until its lease ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    parts: BTreeMap<Shared, f64>,
    /// How many gateways send to the same targets.
    gateways: usize,
    /// When the lease ends, on this process's clock.
    until: Duration,
}

/// The key of a tenant's promise at a target in claims.
pub(super) fn shared(target: &TargetName, tenant: &TenantName) -> Shared {
    format!("{target}/{tenant}")
}

impl Parts {
    /// A bucket that covers no request. A tenant with this bucket is always outside its limits.
    pub(super) const NOTHING: RateBurst = RateBurst { rate: 0.0, burst_seconds: 1e-9 };

    /// The fractions of a claim, which are valid until this reading of the clock.
    pub fn new(claim: &Claim, gateways: usize, until: Duration) -> Self {
        let parts = claim.parts.iter().map(|(shared, part)| (shared.clone(), part.part));
        Self { parts: parts.collect(), gateways, until }
    }

    /// These fractions, each reduced to at most that of the claim.
    pub(super) fn no_more_than(&self, claim: &Claim) -> Self {
        let mut fewer = self.clone();
        for (shared, part) in &mut fewer.parts {
            *part = part.min(claim.parts.get(shared).map_or(0.0, |claimed| claimed.part));
        }
        fewer
    }

    pub(super) fn have_ended(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// The gateway's fraction of a token bucket.
    pub(super) fn of(&self, bucket: RateBurst, shared: &str) -> RateBurst {
        match self.parts.get(shared) {
            Some(part) if *part > 0.0 => {
                RateBurst { rate: bucket.rate * part, burst_seconds: bucket.burst_seconds * part }
            }
            _ => Self::NOTHING,
        }
    }

    /// This gateway's part of the requests that may be outstanding at a target.
    pub(super) fn limits(&self, whole: DeviceLimits) -> DeviceLimits {
        let gateways = self.gateways.max(1);
        let of = |KindLimits { requests, bytes }: KindLimits| KindLimits {
            requests: (requests / gateways).max(1),
            bytes: (bytes / gateways as u64).max(1),
        };
        DeviceLimits { reads: of(whole.reads), writes: of(whole.writes) }
    }
}
