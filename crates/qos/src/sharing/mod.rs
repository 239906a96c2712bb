//! Sharing: several gateways to one target divide the token buckets of a tenant among them by
//! demand.
//!
//! A gateway publishes its *claim*: the part of each bucket that it uses, and its demand. Once a
//! second it reads all claims and publishes its next one, by a compare-and-swap of all of them.
//! [`next_claim`] decides:
//!
//! - A gateway that uses more than its part by demand gives the rest back. It stops using the rest
//!   before it publishes the new claim.
//! - A gateway that uses less takes the part that no other gateway uses.
//!
//! A claim ends with its lease. The gateway stops using a claim one [`LEASE`] after it *began* to
//! publish it. The other gateways ignore the claim once they have seen it unchanged for
//! [`IGNORED_AFTER`]. Clocks of two machines are never compared.
//!
//! **Invariant:** the parts of a bucket that all gateways use add up to 1 at most, even if a
//! gateway pauses, dies or cannot reach the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a gateway uses a claim that it cannot renew.
pub const LEASE: Duration = Duration::from_secs(5);
/// How long the other gateways see a claim unchanged before they ignore it. This is longer than
/// [`LEASE`], because they see the claim later than it began. The difference of a tenth also covers
/// clocks that run at different rates.
pub const IGNORED_AFTER: Duration = Duration::from_millis(5500);
/// Between two claims of a gateway.
pub const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// The demand of a gateway without requests, as a part of the whole demand. With it, the gateway
/// can serve a new request at once, without waiting for the next claim.
const LEAST_DEMAND: f64 = 0.02;
/// A smaller part than this counts as no part.
const LEAST_PART: f64 = 1e-6;

const _: () = assert!(IGNORED_AFTER.as_millis() * 10 >= LEASE.as_millis() * 11);
const _: () = assert!(CLAIM_INTERVAL.as_millis() * 4 <= LEASE.as_millis());

/// The key of shared buckets: `TARGET/TENANT`.
pub type Shared = String;

/// What a gateway uses of one bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The part of the bucket, from 0 to 1.
    pub part: f64,
    /// The work that is asked of the gateway, in seconds of work a second.
    pub demand: f64,
}

/// What a gateway has published.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Grows with each claim of the gateway.
    pub renewal: u64,
    /// By what is shared.
    pub parts: BTreeMap<Shared, Part>,
}

/// The times at which a gateway saw the claims of others change last.
#[derive(Debug, Default)]
pub struct ClaimAges(BTreeMap<String, (u64, Duration)>);

impl ClaimAges {
    /// The valid claims of other gateways, at a reading of this gateway's clock.
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

/// Computes the claim that a gateway publishes next, from its last claim, the valid claims of
/// others, and its demand.
///
/// The gateway must stop using a returned part before the claim is published. It may use a new part
/// only afterwards.
pub fn next_claim(own: &Claim, others: &[&Claim], demand: &BTreeMap<Shared, f64>) -> Claim {
    let parts = demand.iter().map(|(shared, demand)| {
        let of_others = || others.iter().filter_map(|claim| claim.parts.get(shared));
        let used: f64 = of_others().map(|part| part.part).sum();
        let others_demand: f64 = of_others().map(|part| part.demand).sum();
        let whole = others_demand + demand;
        let least = LEAST_DEMAND * whole.max(f64::MIN_POSITIVE);
        let gateways = others.len() as f64 + 1.0;
        // Every gateway has some demand, so that the parts still add up to 1.
        let fair = (demand + least) / (whole + gateways * least);
        let free = (1.0 - used).max(0.0);
        let part = fair.min(free);
        (shared.clone(), Part { part: if part < LEAST_PART { 0.0 } else { part }, demand: *demand })
    });
    Claim { renewal: own.renewal + 1, parts: parts.collect() }
}
