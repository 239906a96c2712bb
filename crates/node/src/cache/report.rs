//! What a node says of its caches, in JSON.

use nacre_object::Result;
use nacre_route::{CacheDemand, MissRatioCurve};
use serde::{Deserialize, Serialize};

use super::blocks::CACHED_BLOCK_BYTES;
use super::settings::CacheSettings;

/// The most points of a reported curve.
pub(super) const CURVE_POINTS: u64 = 128;
/// The name of all tenants without a row of their own, and of the cache that tenants without a
/// share use together. No tenant can have this name.
pub const OTHER_TENANTS: &str = "(others)";

/// What a node says of its caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheReport {
    /// The target whose objects are cached.
    pub target: String,
    /// The epoch of the map `routes` whose settings are in force.
    pub epoch: u64,
    /// The settings; `None` if nothing is cached.
    pub settings: Option<CacheSettings>,
    /// The caches: those of tenants with a share, and the one that the others use together.
    pub caches: Vec<CacheUse>,
    /// The tenants that have read since the node started.
    pub tenants: Vec<TenantReads>,
}

/// A cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Its tenant, or [`OTHER_TENANTS`].
    pub cache: String,
    /// The most bytes that it may have.
    pub capacity_bytes: u64,
    /// The bytes that it has.
    pub used_bytes: u64,
}

/// The reads of a tenant that a cache may answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantReads {
    /// The tenant, or [`OTHER_TENANTS`].
    pub tenant: String,
    /// The name of the cache that it uses.
    pub cache: String,
    /// Reads that the cache has answered.
    pub hits: u64,
    /// Reads that went to the engine.
    pub misses: u64,
    /// Reads a second, at present.
    pub reads_per_second: f64,
    /// Pairs of a cache size in bytes and the part of the reads that a cache of this size misses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<(u64, f64)>,
}

impl TenantReads {
    /// What the tenant reads, to divide a cache by. Sizes are counted in blocks of
    /// [`CACHED_BLOCK_BYTES`].
    ///
    /// # Errors
    /// `Invalid` if the curve makes no sense.
    pub fn demand(&self) -> Result<CacheDemand> {
        let blocks = self.curve.iter().map(|(bytes, ratio)| (bytes / CACHED_BLOCK_BYTES, *ratio));
        let curve = MissRatioCurve::from_steps(blocks.collect())?;
        Ok(CacheDemand { reads_per_second: self.reads_per_second, curve })
    }
}

/// The points of a curve, up to twice the size of the cache. So one sees whether more memory would
/// help.
pub(super) fn points(curve: &MissRatioCurve, cache_bytes: u64) -> Vec<(u64, f64)> {
    let step = (2 * cache_bytes / CURVE_POINTS / CACHED_BLOCK_BYTES).max(1);
    let sizes = (1..=CURVE_POINTS).map(|point| point * step);
    sizes.map(|blocks| (blocks * CACHED_BLOCK_BYTES, curve.miss_ratio(blocks))).collect()
}
