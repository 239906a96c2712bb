//! `nacre route cache divide`: gives each tenant a share of the cache by its reads.

use std::collections::BTreeMap;

use nacre_node::{CACHED_BLOCK_BYTES, CacheReport, CacheSettings, OTHER_TENANTS};
use nacre_object::{Error, Result, TenantName};
use nacre_route::divide_cache;
use serde_json::json;

use crate::out::{Out, table};

/// A cache is divided into this many parts. More parts would save no misses, because the error of a
/// miss-ratio curve is larger than a part.
const UNITS: u64 = 64;

/// The shares of tenants, in bytes.
///
/// # Errors
/// `NotFound` if caches are off; `Invalid` if a curve makes no sense.
pub(super) fn shares(
    settings: Option<&CacheSettings>,
    reports: &[CacheReport],
) -> Result<BTreeMap<TenantName, u64>> {
    let settings = settings.ok_or_else(|| {
        Error::not_found("no pool is cached, so there is no cache to divide")
            .hint("turn caches on: nacre route cache on --size SIZE")
    })?;
    let (mut tenants, mut unnamed) = (BTreeMap::<_, Vec<_>>::new(), vec![]);
    for reads in reports.iter().flat_map(|report| &report.tenants) {
        match reads.tenant.as_str() {
            OTHER_TENANTS => unnamed.push(reads.demand()?),
            tenant => tenants.entry(TenantName::new(tenant)?).or_default().push(reads.demand()?),
        }
    }
    let unit_bytes = settings.bytes / UNITS;
    let unit_blocks = unit_bytes / CACHED_BLOCK_BYTES;
    let mut units = divide_cache(&tenants, &unnamed, UNITS as usize, unit_blocks)?;
    // A tenant that gains nothing uses the rest, together with new tenants.
    units.retain(|_, units| *units > 0);
    let bytes = |units: usize| units as u64 * unit_bytes;
    Ok(units.into_iter().map(|(tenant, units)| (tenant, bytes(units))).collect())
}

/// Prints the shares.
pub(super) fn show(
    epoch: u64,
    is_in_force: bool,
    shares: &BTreeMap<TenantName, u64>,
    out: Out,
) -> Result<()> {
    let named: BTreeMap<_, _> =
        shares.iter().map(|(tenant, bytes)| (tenant.as_str(), *bytes)).collect();
    out.show(&json!({ "epoch": epoch, "in_force": is_in_force, "shares": named }), || {
        let state = if is_in_force { "in force" } else { "stored" };
        let rows: Vec<_> = named
            .iter()
            .map(|(tenant, bytes)| vec![(*tenant).to_owned(), out.size(*bytes)])
            .collect();
        format!("{}\nepoch {epoch}, {state}", table(&["tenant", "share"], &rows))
    })
}

#[cfg(test)]
mod tests {
    use nacre_node::{CacheDivision, TenantReads};

    use super::*;

    /// A tenant whose reads all hit in a cache of this many bytes, and miss in a smaller one.
    fn reads(tenant: &str, reads_per_second: f64, bytes: u64) -> TenantReads {
        let (tenant, cache) = (tenant.to_owned(), OTHER_TENANTS.to_owned());
        let curve = vec![(bytes, 0.0)];
        TenantReads { tenant, cache, hits: 1, misses: 1, reads_per_second, curve }
    }

    fn divided(tenants: Vec<TenantReads>) -> BTreeMap<String, u64> {
        let pools = vec!["data".to_owned()];
        let bytes = 64 << 20;
        let settings = CacheSettings { pools, bytes, division: CacheDivision::Shared };
        let (target, epoch) = ("storage.0".to_owned(), 1);
        let report = CacheReport { target, epoch, settings: None, caches: vec![], tenants };
        let shares = shares(Some(&settings), &[report]).unwrap();
        shares.into_iter().map(|(tenant, bytes)| (tenant.to_string(), bytes)).collect()
    }

    #[test]
    fn tenants_that_gain_get_a_share_and_idle_ones_use_the_rest() {
        const MIB: u64 = 1 << 20;
        let all = vec![
            reads("gold", 100.0, 20 * MIB),
            reads("silver", 50.0, 40 * MIB),
            reads("idle", 0.0, MIB),
        ];
        let found = divided(all);
        assert_eq!(found.len(), 2, "{found:?}");
        // A share is a whole number of parts, and a part a whole number of blocks.
        assert!((20 * MIB..=21 * MIB).contains(&found["gold"]), "{found:?}");
        assert!((40 * MIB..=42 * MIB).contains(&found["silver"]), "{found:?}");
        let others = vec![reads(OTHER_TENANTS, 1e3, 60 * MIB), reads("gold", 1.0, 30 * MIB)];
        assert!(divided(others).get("gold").is_none_or(|share| *share <= 3 * MIB));
        assert!(shares(None, &[]).is_err());
    }
}
