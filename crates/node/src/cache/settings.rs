//! `CacheSettings`: the entry `caches` of the map `routes`, which turns caches on.

use std::collections::BTreeMap;

use nacre_object::{Error, PoolName, Result, TenantName};
use serde::{Deserialize, Serialize};

use super::node_cache::MAX_TENANTS;

/// The smallest cache of a node. A smaller one cannot be divided into useful shares.
const MIN_CACHE_BYTES: u64 = 4 << 20;
/// The largest cache of a node: more memory than a machine has.
const MAX_CACHE_BYTES: u64 = 1 << 40;
/// The smallest share of a tenant, unless it has none. It holds a dozen blocks.
const MIN_SHARE_BYTES: u64 = 64 << 10;
/// The most pools whose objects are cached.
const MAX_POOLS: usize = 64;

const _: () = assert!(MIN_SHARE_BYTES * 64 <= MIN_CACHE_BYTES, "a share may be a 64th");

/// Which objects nodes cache, and how each node divides its cache among tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSettings {
    /// The pools whose objects are cached.
    pub pools: Vec<String>,
    /// The memory of each node's caches together, in bytes.
    pub bytes: u64,
    /// How it is divided.
    pub division: CacheDivision,
}

/// How a node divides its cache memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheDivision {
    /// All tenants use one cache together.
    Shared,
    /// These tenants have a cache of this many bytes each. All other tenants use what is left
    /// together.
    Shares(BTreeMap<String, u64>),
}

impl CacheSettings {
    /// Checks their bounds.
    ///
    /// # Errors
    /// `Invalid`, with what is allowed.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String, hint: String| Err(Error::invalid(what).hint(hint));
        if self.pools.is_empty() || self.pools.len() > MAX_POOLS {
            let what = format!("the settings name {} pools", self.pools.len());
            return wrong(what, format!("name 1 to {MAX_POOLS} pools whose objects are cached"));
        }
        for pool in &self.pools {
            if PoolName::new(pool)?.is_own() {
                let what = format!("the pool {pool} is nacre's own and is not cached");
                return wrong(what, "name pools of clients".to_owned());
            }
        }
        if !(MIN_CACHE_BYTES..=MAX_CACHE_BYTES).contains(&self.bytes) {
            let what = format!("a node cannot have a cache of {} bytes", self.bytes);
            let hint = format!("use {MIN_CACHE_BYTES} to {MAX_CACHE_BYTES} bytes (4 MiB to 1 TiB)");
            return wrong(what, hint);
        }
        self.check_shares()
    }

    fn check_shares(&self) -> Result<()> {
        let wrong = |what: String, hint: String| Err(Error::invalid(what).hint(hint));
        let CacheDivision::Shares(shares) = &self.division else { return Ok(()) };
        if shares.len() > MAX_TENANTS {
            let what = format!("{} tenants have a share of the cache", shares.len());
            return wrong(what, format!("name {MAX_TENANTS} at most; the others share the rest"));
        }
        for (tenant, bytes) in shares {
            TenantName::new(tenant)?;
            if *bytes != 0 && *bytes < MIN_SHARE_BYTES {
                let what = format!("the share of {tenant} has {bytes} bytes");
                return wrong(what, format!("give it 0 or at least {MIN_SHARE_BYTES} bytes"));
            }
        }
        let sum = shares.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        if sum > self.bytes {
            let what = format!("the shares have {sum} bytes together, the cache {}", self.bytes);
            return wrong(what, "make shares smaller, or the cache larger".to_owned());
        }
        Ok(())
    }

    /// The bytes of the cache that tenants without a share use together.
    pub fn rest(&self) -> u64 {
        match &self.division {
            CacheDivision::Shared => self.bytes,
            CacheDivision::Shares(shares) => {
                shares.values().fold(self.bytes, |left, bytes| left.saturating_sub(*bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(shares: &[(&str, u64)]) -> CacheSettings {
        let shares = shares.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        let division = CacheDivision::Shares(shares);
        CacheSettings { pools: vec!["data".to_owned()], bytes: 64 << 20, division }
    }

    #[test]
    fn settings_out_of_bounds_are_refused() {
        settings(&[("gold", 64 << 20), ("silver", 0)]).check().unwrap();
        let shared = CacheSettings { division: CacheDivision::Shared, ..settings(&[]) };
        shared.check().unwrap();
        let wrong = |settings: CacheSettings| settings.check().unwrap_err();
        wrong(CacheSettings { pools: vec![], ..shared.clone() });
        wrong(CacheSettings { pools: vec!["nacre.routed".to_owned()], ..shared.clone() });
        wrong(CacheSettings { bytes: 1 << 20, ..shared.clone() });
        wrong(CacheSettings { bytes: u64::MAX, ..shared });
        wrong(settings(&[("gold", 100)]));
        wrong(settings(&[("gold", 40 << 20), ("silver", 40 << 20)]));
        wrong(settings(&[("gold", u64::MAX), ("silver", u64::MAX)]));
    }

    #[test]
    fn tenants_without_a_share_use_the_rest() {
        assert_eq!(settings(&[("gold", 16 << 20)]).rest(), 48 << 20);
        let text = serde_json::to_string(&settings(&[("gold", 16 << 20)])).unwrap();
        let expected =
            r#"{"pools":["data"],"bytes":67108864,"division":{"shares":{"gold":16777216}}}"#;
        assert_eq!(text, expected);
    }
}
