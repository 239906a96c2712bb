//! Divides the promises of tenants among the gateways to one Ceph cluster, by the rules of
//! [`nacre_qos::sharing`]. Each gateway stores its *claim*, the fractions that it uses, as one
//! entry of the map `slo-claims`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nacre_clock::Clock;
use nacre_object::{Error, Result};
use nacre_qos::sharing::{CLAIM_INTERVAL, Claim, ClaimAges, LEASE, Shared, next_claim};
use nacre_registry::{Change, MapState, Maps, SLO_CLAIMS_MAP};
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use crate::NodeSlo;
use crate::layer::Parts;
use crate::records::encode;

/// Spawns a task that makes a gateway use only its fraction of each promise. It runs until it is
/// aborted.
pub fn share_among_gateways(
    maps: Maps,
    gateway: String,
    node: Arc<NodeSlo>,
    clock: Arc<dyn Clock>,
) -> JoinHandle<()> {
    node.share();
    let mut sharing =
        Sharing { maps, gateway, node, clock, seen: ClaimAges::default(), asked: BTreeMap::new() };
    tokio::spawn(async move {
        let mut ticks = interval(CLAIM_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let demand = sharing.demand();
            if !demand.is_empty() {
                // A claim that this call cannot renew expires by itself. The next tick tries again.
                let _ = timeout(LEASE, sharing.claim(&demand)).await;
            }
        }
    })
}

struct Sharing {
    maps: Maps,
    gateway: String,
    node: Arc<NodeSlo>,
    clock: Arc<dyn Clock>,
    seen: ClaimAges,
    /// For each promise, the total work that clients had asked for when the last claim was made,
    /// and the time of that claim.
    asked: BTreeMap<Shared, (f64, Duration)>,
}

impl Sharing {
    /// The work a second that clients have asked for since the last call, for each tenant with a
    /// promise.
    fn demand(&mut self) -> BTreeMap<Shared, f64> {
        let now = self.clock.monotonic();
        let asked = self.node.asked_seconds();
        let rate = |(shared, seconds): (&Shared, &f64)| {
            let (before, at) = self.asked.get(shared).copied().unwrap_or((0.0, now));
            let passed = now.saturating_sub(at).max(CLAIM_INTERVAL).as_secs_f64();
            (shared.clone(), (seconds - before).max(0.0) / passed)
        };
        let demand = asked.iter().map(rate).collect();
        self.asked = asked.into_iter().map(|(shared, seconds)| (shared, (seconds, now))).collect();
        demand
    }

    async fn claim(&mut self, demand: &BTreeMap<Shared, f64>) -> Result<()> {
        let began = self.clock.monotonic();
        let (mut next, mut gateways) = (Claim::default(), 1);
        let Self { maps, gateway, node, clock, seen, .. } = self;
        let decide = |map: &MapState| {
            let claims = claims(map)?;
            let own = claims.get(gateway).cloned().unwrap_or_default();
            let others = seen.holding(&claims, gateway, clock.monotonic());
            gateways = others.len() + 1;
            next = next_claim(&own, &others, demand);
            node.give_back(&next);
            Ok(vec![Change::set(gateway.clone(), encode(&next))])
        };
        maps.update(&SLO_CLAIMS_MAP.parse()?, decide).await?;
        self.node.use_parts(Parts::new(&next, gateways, began + LEASE));
        Ok(())
    }
}

fn claims(map: &MapState) -> Result<BTreeMap<String, Claim>> {
    let claim = |(gateway, value): (&String, &Bytes)| {
        let claim = serde_json::from_slice(value).map_err(|cause| {
            Error::corrupt(format!(
                "the claim of {gateway} in the map {SLO_CLAIMS_MAP} is malformed: {cause}"
            ))
            .hint("run one release of nacre on all gateways")
        })?;
        Ok((gateway.clone(), claim))
    };
    map.entries.iter().map(claim).collect()
}
