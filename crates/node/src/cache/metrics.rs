//! The metrics of a node's caches. Their series are by target and tenant, never by object. The
//! number of tenants is bounded by that of [`NodeCache`].

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::NodeCache;
use super::report::{CacheReport, CacheUse, TenantReads};
use crate::metrics::page::{Page, bytes, plain};

/// Reads the caches.
#[derive(Debug)]
pub(crate) struct CachesCollector(pub Arc<NodeCache>);

impl Collector for CachesCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(&self.0.counts(), Page(encoder))
    }
}

fn encode(report: &CacheReport, mut page: Page<'_>) -> fmt::Result {
    let of_caches = |read: fn(&CacheUse) -> u64| {
        report.caches.iter().map(move |cache| {
            (vec![("target", report.target.as_str()), ("cache", cache.cache.as_str())], read(cache))
        })
    };
    let of_tenants = |read: fn(&TenantReads) -> u64| {
        report.tenants.iter().map(move |reads| {
            (
                vec![("target", report.target.as_str()), ("tenant", reads.tenant.as_str())],
                read(reads),
            )
        })
    };
    let help = "The most bytes that a cache may have";
    page.gauges(bytes("cache_capacity", help), of_caches(|cache| cache.capacity_bytes))?;
    let help = "Bytes that a cache has";
    page.gauges(bytes("cache_used", help), of_caches(|cache| cache.used_bytes))?;
    let help = "Reads that a cache has answered";
    page.counters(plain("cache_hits", help), of_tenants(|reads| reads.hits))?;
    let help = "Reads that went to the engine";
    page.counters(plain("cache_misses", help), of_tenants(|reads| reads.misses))
}

#[cfg(test)]
mod page_tests {
    use std::collections::BTreeSet;

    use super::super::OTHER_TENANTS;
    use super::*;
    use crate::metrics::Metrics;

    #[derive(Debug)]
    struct OfReport(CacheReport);

    impl Collector for OfReport {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            encode(&self.0, Page(encoder))
        }
    }

    #[test]
    fn the_page_about_metrics_lists_exactly_the_metrics_of_caches() {
        let cache = OTHER_TENANTS.to_owned();
        let (tenant, curve) = ("gold".to_owned(), vec![]);
        let reads_per_second = 0.0;
        let report = CacheReport {
            target: "storage.0".to_owned(),
            epoch: 1,
            settings: None,
            caches: vec![CacheUse { cache: cache.clone(), capacity_bytes: 9, used_bytes: 5 }],
            tenants: vec![TenantReads {
                tenant,
                cache,
                hits: 7,
                misses: 3,
                reads_per_second,
                curve,
            }],
        };
        let mut metrics = Metrics::default();
        metrics.add(OfReport(report));
        let text = metrics.text().unwrap();
        let hits = r#"nacre_cache_hits_total{target="storage.0",tenant="gold"} 7"#;
        assert!(text.contains(hits), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<&str> =
            samples.filter_map(|line| line.split_once('{')).map(|(name, _)| name).collect();
        let page = include_str!("../../../../docs/observing.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `nacre_cache_"));
        let documented: BTreeSet<String> =
            rows.map(|row| format!("nacre_cache_{}", row.split('`').next().unwrap())).collect();
        let documented: BTreeSet<&str> = documented.iter().map(String::as_str).collect();
        assert_eq!(exported, documented, "docs/observing.md");
    }
}
