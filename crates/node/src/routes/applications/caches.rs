//! What control programs get of the nodes' caches, put together from the reports of all nodes.

use std::collections::BTreeMap;

use nacre_object::Result;
use nacre_route::{CacheLoad, CacheTenant, MissRatioCurve};

use crate::cache::{CACHED_BLOCK_BYTES, CacheDivision, CacheReport, CacheSettings, OTHER_TENANTS};

/// The most tenants that a program gets: those that read most.
const MAX_TENANTS: usize = 32;
/// The most points of a curve that a program gets.
const CURVE_POINTS: u64 = 128;

/// The caches of all nodes that have answered.
///
/// # Errors
/// `Invalid` if a curve makes no sense.
pub(super) fn cache_load(settings: &CacheSettings, reports: &[CacheReport]) -> Result<CacheLoad> {
    let mut tenants: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for reads in reports.iter().flat_map(|report| &report.tenants) {
        if reads.tenant != OTHER_TENANTS {
            let demand = reads.demand()?;
            let curves = tenants.entry(&reads.tenant).or_default();
            curves.push((demand.curve, demand.reads_per_second));
        }
    }
    let step = (settings.bytes / CURVE_POINTS / CACHED_BLOCK_BYTES).max(1);
    let load = |(name, curves): (&str, Vec<(MissRatioCurve, f64)>)| {
        let mean = MissRatioCurve::mean(&curves);
        let sizes = (1..=CURVE_POINTS).map(|point| point * step);
        CacheTenant {
            name: name.to_owned(),
            reads: curves.iter().map(|(_, reads)| reads).sum(),
            share: share_of(settings, name),
            curve: sizes
                .map(|blocks| (blocks * CACHED_BLOCK_BYTES, mean.miss_ratio(blocks)))
                .collect(),
        }
    };
    let mut tenants: Vec<_> = tenants.into_iter().map(load).collect();
    tenants.sort_by(|a, b| b.reads.total_cmp(&a.reads).then_with(|| a.name.cmp(&b.name)));
    tenants.truncate(MAX_TENANTS);
    tenants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(CacheLoad { bytes: settings.bytes, tenants })
}

fn share_of(settings: &CacheSettings, tenant: &str) -> Option<u64> {
    match &settings.division {
        CacheDivision::Shared => None,
        CacheDivision::Shares(shares) => shares.get(tenant).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::TenantReads;

    fn report(target: &str, tenants: &[(&str, f64, u64)]) -> CacheReport {
        let reads = |(tenant, reads, bytes): &(&str, f64, u64)| TenantReads {
            tenant: (*tenant).to_owned(),
            cache: OTHER_TENANTS.to_owned(),
            hits: 0,
            misses: 0,
            reads_per_second: *reads,
            curve: vec![(*bytes, 0.0)],
        };
        CacheReport {
            target: target.to_owned(),
            epoch: 1,
            settings: None,
            caches: vec![],
            tenants: tenants.iter().map(reads).collect(),
        }
    }

    #[test]
    fn the_reads_of_a_tenant_at_all_nodes_are_one_curve() {
        let settings = CacheSettings {
            pools: vec!["data".to_owned()],
            bytes: 64 << 20,
            division: CacheDivision::Shares([("gold".to_owned(), 1 << 20)].into()),
        };
        let reports = [
            report("a", &[("gold", 30.0, 1 << 20), (OTHER_TENANTS, 9.0, 1 << 20)]),
            report("b", &[("gold", 10.0, 4 << 20), ("silver", 1.0, 1 << 20)]),
        ];
        let load = cache_load(&settings, &reports).unwrap();
        let [gold, silver] = &load.tenants[..] else { panic!("{load:?}") };
        assert_eq!((gold.name.as_str(), gold.reads, gold.share), ("gold", 40.0, Some(1 << 20)));
        assert_eq!((silver.name.as_str(), silver.share), ("silver", None));
        let ratios: Vec<_> = gold.curve.iter().map(|(_, ratio)| *ratio).collect();
        let steps: Vec<_> = ratios.windows(2).filter(|pair| pair[0] != pair[1]).collect();
        assert_eq!(steps, [[1.0, 0.25], [0.25, 0.0]], "three quarters fit into 1 MiB");
        assert_eq!((ratios.first(), ratios.last()), (Some(&1.0), Some(&0.0)));
    }
}
