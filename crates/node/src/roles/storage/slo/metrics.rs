//! Latencies and promises by tenant and target.

use std::fmt;
use std::sync::Arc;

use nacre_slo::{DirectTraffic, NodeSlo, TargetReport, TenantReport};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::page::{Page, plain, seconds};

/// Reports what a node has measured of latencies.
#[derive(Debug)]
pub(super) struct SloCollector(pub Arc<NodeSlo>);

impl Collector for SloCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (report, mut page) = (self.0.report(), Page(encoder));
        let of_tenants = |read: fn(&TenantReport) -> u64| {
            let values = report.iter().flat_map(move |target| {
                target.tenants.iter().map(move |tenant| (labels(target, tenant), read(tenant)))
            });
            values.collect::<Vec<_>>()
        };
        let help = "Requests answered, by tenant and target";
        page.counters(plain("slo_requests", help), of_tenants(|tenant| tenant.requests))?;
        let help = "Of these, those within the tenant's token bucket";
        page.counters(plain("slo_within", help), of_tenants(|tenant| tenant.within))?;
        let help = "Requests that found the tenant's queue full, or waited too long in it";
        page.counters(plain("slo_refused", help), of_tenants(|tenant| tenant.refused))?;
        let help = "Requests that took longer than promised";
        page.counters(plain("slo_misses", help), of_tenants(|tenant| tenant.misses))?;
        let help = "Requests that wait in the tenant's queue";
        page.gauges(plain("slo_queued", help), of_tenants(|tenant| tenant.queued as u64))?;
        let of_targets = |read: fn(&DirectTraffic) -> f64| {
            let direct = report.iter().filter_map(|target| Some((target, target.direct?)));
            let values = direct
                .map(|(target, direct)| (vec![("target", target.target.as_str())], read(&direct)));
            values.collect::<Vec<_>>()
        };
        let help = "Operations a second of clients that pass no gateway";
        let title = plain("slo_direct_operations_per_second", help);
        page.gauges(title, of_targets(|direct| direct.operations_per_second))?;
        let help = "The part of the target's time that these operations take by its profile";
        page.gauges(plain("slo_direct_load", help), of_targets(|direct| direct.load))?;
        let latencies = self.0.histograms();
        let latencies = latencies.iter().map(|(target, tenant, latency)| {
            (vec![("target", target.as_str()), ("tenant", tenant.as_str())], latency)
        });
        let help = "From when a request reached the target's queue until the engine had answered";
        page.histograms(seconds("slo_latency", help), latencies)
    }
}

fn labels<'a>(target: &'a TargetReport, tenant: &'a TenantReport) -> Vec<(&'static str, &'a str)> {
    vec![("target", &target.target), ("tenant", &tenant.tenant)]
}
