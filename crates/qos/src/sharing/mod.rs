//! Sharing: several gateways to one target divide the token buckets of a tenant among them by
//! demand. `nacre-slo` stores and applies the claims.
//!
//! A gateway publishes its *claim*: the fraction of each bucket that it uses, and its demand. Once
//! a second it reads the claims of all gateways, and publishes its next claim by a compare-and-swap
//! of the whole set. [`next_claim`] computes it:
//!
//! - If a gateway uses more than its share by demand, it gives the excess back. It stops using the
//!   excess before it publishes the new claim.
//! - If a gateway uses less than its share, it takes what no other gateway uses.
//!
//! A claim is a lease. The gateway stops using a claim one [`LEASE`] after it *began* to publish
//! it. The other gateways ignore the claim once they have seen it unchanged for [`IGNORED_AFTER`].
//! Clocks of two machines are never compared.
//!
//! **Invariant:** the fractions of a bucket that all gateways use add up to at most 1, even if a
//! gateway pauses, dies or cannot reach the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a gateway uses a claim if it cannot renew it.
pub const LEASE: Duration = Duration::from_secs(5);
/// The other gateways ignore a claim that they have seen unchanged for this long. The gateway
/// itself counts its [`LEASE`] from before it publishes the claim, so it stops using the claim
/// first. This time is a tenth longer than the lease, because clocks may run at different rates.
pub const IGNORED_AFTER: Duration = Duration::from_millis(5500);
/// The time between two claims of a gateway.
pub const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// The demand of a gateway counts as at least this fraction of the total demand. So a gateway
/// without requests keeps some tokens, and can serve a new request before its next claim.
const LEAST_DEMAND: f64 = 0.02;
/// A smaller fraction than this counts as 0.
const LEAST_PART: f64 = 1e-6;

const _: () = assert!(IGNORED_AFTER.as_millis() * 10 >= LEASE.as_millis() * 11);
const _: () = assert!(CLAIM_INTERVAL.as_millis() * 4 <= LEASE.as_millis());

/// The key of shared buckets: `TARGET/TENANT`.
pub type Shared = String;

/// The fraction of one token bucket that a gateway uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The fraction of the bucket, from 0 to 1.
    pub part: f64,
    /// The work that clients ask of the gateway, in seconds of work a second.
    pub demand: f64,
}

/// The fractions of token buckets that a gateway uses, as it has published them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Grows with each claim of the gateway.
    pub renewal: u64,
    /// The fraction of each shared bucket.
    pub parts: BTreeMap<Shared, Part>,
}

/// When this gateway last saw each claim of another gateway change.
#[derive(Debug, Default)]
pub struct ClaimAges(BTreeMap<String, (u64, Duration)>);

impl ClaimAges {
    /// The claims of other gateways that have not expired at `now`, a reading of this gateway's
    /// clock.
    pub fn holding<'a>(
        &mut self,
        claims: &'a BTreeMap<String, Claim>,
        own: &str,
        now: Duration,
    ) -> Vec<&'a Claim> {
        self.0.retain(|gateway, _| claims.contains_key(gateway));
        let mut holding = vec![];
        for (gateway, claim) in claims.iter().filter(|(gateway, _)| *gateway != own) {
            let seen = self.0.entry(gateway.clone()).or_insert((claim.renewal, now));
            if seen.0 != claim.renewal {
                *seen = (claim.renewal, now);
            }
            if now < seen.1 + IGNORED_AFTER {
                holding.push(claim);
            }
        }
        holding
    }
}

/// Computes the claim that a gateway publishes next. It depends on the gateway's last claim, the
/// valid claims of other gateways, and the gateway's demand.
///
/// The gateway must stop using the fractions that it gives back before it publishes the claim. It
/// may use the fractions that it gains only after the claim is published.
pub fn next_claim(own: &Claim, others: &[&Claim], demand: &BTreeMap<Shared, f64>) -> Claim {
    let parts = demand.iter().map(|(shared, demand)| {
        let of_others = || others.iter().filter_map(|claim| claim.parts.get(shared));
        let used: f64 = of_others().map(|part| part.part).sum();
        let others_demand: f64 = of_others().map(|part| part.demand).sum();
        let whole = others_demand + demand;
        let least = LEAST_DEMAND * whole.max(f64::MIN_POSITIVE);
        let gateways = others.len() as f64 + 1.0;
        // The demand of every gateway is raised by `least`, so the sum is raised by `least` for
        // each gateway. The fair shares still add up to 1.
        let fair = (demand + least) / (whole + gateways * least);
        let free = (1.0 - used).max(0.0);
        let part = fair.min(free);
        (shared.clone(), Part { part: if part < LEAST_PART { 0.0 } else { part }, demand: *demand })
    });
    Claim { renewal: own.renewal + 1, parts: parts.collect() }
}
