//! `SloState`: the parsed contents of the map `slo`.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacre_object::{Error, NodeName, PoolName, ProgramName, Result, TargetName, TenantName};
use nacre_qos::limits::{MAX_WEIGHT, MIN_WEIGHT};
use nacre_qos::scheduler::Share;
use nacre_qos::{Link, RateBurst};
use nacre_registry::MapState;
use nacre_wire::{LinkSettings, TenantLink};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::{Placement, Promise, StoredProfile};
use crate::traffic::epoch_of;

pub(crate) const ENFORCE_KEY: &str = "enforce";
pub(crate) const ORDER_KEY: &str = "order";
pub(crate) const POOL_PREFIX: &str = "pool/";
pub(crate) const WEIGHT_PREFIX: &str = "weight/";
pub(crate) const TARGET_PREFIX: &str = "target/";
pub(crate) const LINK_PREFIX: &str = "link/";
pub(crate) const TENANT_PREFIX: &str = "tenant/";
pub(crate) const PLACEMENT_PREFIX: &str = "placement/";

/// The tenant of nacre's own requests on maps, programs and the cluster log. Up to a low rate, they
/// are served before all others.
pub fn system_tenant() -> TenantName {
    TenantName::new("nacre.system").expect("a literal")
}

/// The name of [`background_tenant`].
pub(crate) const BACKGROUND_TENANT: &str = "nacre.background";

/// The tenant of nacre's own background work: scrub, compaction, layout changes, copies, and routed
/// bytes that are brought home. Like any tenant without a promise, it has a weight.
pub fn background_tenant() -> TenantName {
    TenantName::new(BACKGROUND_TENANT).expect("a literal")
}

/// The contents of the map `slo`. The default value stands for an empty map: there are no promises,
/// and nothing is enforced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SloState {
    /// The map's epoch.
    pub epoch: u64,
    /// Whether nodes order requests, or only measure them.
    pub is_enforced: bool,
    /// The program that orders requests; `None` for the built-in order.
    pub order: Option<ProgramName>,
    /// For some pools, the tenant to which all requests on their objects belong, whoever sends
    /// them.
    pub pools: BTreeMap<PoolName, TenantName>,
    /// The weights of tenants without a promise. A tenant that is missing has the default weight.
    pub weights: BTreeMap<TenantName, f64>,
    /// How much work requests are on each target.
    pub profiles: BTreeMap<TargetName, StoredProfile>,
    /// The network links of nodes whose speed was stated.
    pub links: BTreeMap<NodeName, Link>,
    /// The promise to each tenant.
    pub promises: BTreeMap<TenantName, Promise>,
    /// The tenants whose pools were moved to one target.
    pub placements: BTreeMap<TenantName, Placement>,
}

impl SloState {
    /// Parses the contents of the map `slo`. Ignores keys that this release does not know.
    ///
    /// # Errors
    /// `Corrupt` if an entry is malformed.
    pub fn of(map: &MapState) -> Result<Self> {
        let mut state = Self { epoch: map.epoch, ..Self::default() };
        for (key, value) in &map.entries {
            state.read(key, value).map_err(|cause| {
                Error::corrupt(format!(
                    "the entry {key} of the map slo is malformed: {}",
                    cause.message()
                ))
                .hint(format!("remove it: nacre map rm slo --system '{key}'"))
            })?;
        }
        Ok(state)
    }

    /// A number that changes whenever a profile changes.
    pub fn profile_epoch(&self) -> u64 {
        let profiles: Vec<_> =
            self.profiles.iter().map(|(target, stored)| (target.as_str(), stored)).collect();
        // JSON libraries of some languages support no integers above 2^53.
        xxh3_64(&encode(&profiles)) & ((1 << 53) - 1)
    }

    /// A number that changes whenever a target or a link is added, removed or replaced. A promise
    /// is valid for one such number only. Without links, the number depends on the targets alone.
    pub fn placement_epoch(&self) -> u64 {
        let links = self.links.iter();
        let links = links.map(|(node, link)| format!("link {node} {}", link.bytes_per_second()));
        epoch_of(self.profiles.keys().map(ToString::to_string).chain(links))
    }

    /// The only target that gets requests of a tenant, if its pools were moved there.
    pub fn only_target(&self, tenant: &TenantName) -> Option<&str> {
        let placement = self.placements.get(tenant).filter(|placement| placement.is_complete)?;
        Some(&placement.target)
    }

    /// How tenants share the link of a node; `None` if its speed was not stated. While promises are
    /// not enforced, all tenants share it by weight.
    pub fn link_settings(&self, node: &NodeName) -> Option<LinkSettings> {
        let weighted = |weight: f64| Share::Weighted { weight };
        let weights = self.weights.iter().map(|(tenant, weight)| {
            let share = weighted(*weight);
            (tenant.clone(), TenantLink { sent: share.clone(), received: share })
        });
        let promised = |promise: &Promise, bucket: Option<RateBurst>| match bucket {
            Some(bucket) => Share::Promised { priority: promise.priority, buckets: vec![bucket] },
            None => weighted(1.0),
        };
        let promises = self.promises.iter().filter(|_| self.is_enforced);
        let promises = promises.map(|(tenant, promise)| {
            let sent = promised(promise, promise.bucket_sent_by(node));
            let received = promised(promise, promise.bucket_received_by(node));
            (tenant.clone(), TenantLink { sent, received })
        });
        Some(LinkSettings {
            link: *self.links.get(node)?,
            pools: self.pools.clone(),
            tenants: weights.chain(promises).collect(),
        })
    }

    fn read(&mut self, key: &str, value: &Bytes) -> Result<()> {
        if key == ENFORCE_KEY {
            self.is_enforced = decode(value)?;
        } else if key == ORDER_KEY {
            let program: String = decode(value)?;
            self.order = Some(ProgramName::new(program)?);
        } else if let Some(pool) = key.strip_prefix(POOL_PREFIX) {
            let tenant: String = decode(value)?;
            self.pools.insert(PoolName::new(pool)?, TenantName::new(tenant)?);
        } else if let Some(tenant) = key.strip_prefix(WEIGHT_PREFIX) {
            let weight: f64 = decode(value)?;
            if !(MIN_WEIGHT..=MAX_WEIGHT).contains(&weight) {
                return Err(Error::corrupt(format!("the weight {weight} is out of range")));
            }
            self.weights.insert(TenantName::new(tenant)?, weight);
        } else if let Some(target) = key.strip_prefix(TARGET_PREFIX) {
            self.profiles.insert(TargetName::new(target)?, decode(value)?);
        } else if let Some(node) = key.strip_prefix(LINK_PREFIX) {
            let bytes_per_second: f64 = decode(value)?;
            self.links.insert(NodeName::new(node)?, Link::new(bytes_per_second)?);
        } else if let Some(tenant) = key.strip_prefix(TENANT_PREFIX) {
            let promise: Promise = decode(value)?;
            let is_bucket = |rate: f64, burst: f64| rate.is_finite() && rate >= 0.0 && burst > 0.0;
            let buckets = promise.flows.iter().map(|flow| flow.bucket);
            if !buckets.clone().all(|bucket| is_bucket(bucket.rate, bucket.burst_seconds)) {
                return Err(Error::corrupt("a token bucket has an invalid rate or burst"));
            }
            self.promises.insert(TenantName::new(tenant)?, promise);
        } else if let Some(tenant) = key.strip_prefix(PLACEMENT_PREFIX) {
            self.placements.insert(TenantName::new(tenant)?, decode(value)?);
        }
        Ok(())
    }
}

/// The value of an entry, as JSON.
pub(crate) fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("records have nothing that JSON lacks").into()
}

fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|cause| Error::corrupt(cause.to_string()))
}
