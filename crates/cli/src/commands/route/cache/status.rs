//! `nacre route cache status`: what each node's caches do.

use nacre_node::{CacheReport, TenantReads};
use nacre_object::Result;

use crate::out::{Out, printable, table};

const HEADER: [&str; 9] =
    ["target", "tenant", "cache", "capacity", "used", "hits", "misses", "hit ratio", "reads/s"];

/// Shows it. The curves have a command of their own.
pub(super) fn status(reports: &[CacheReport], out: Out) -> Result<()> {
    let without_curve = |reads: &TenantReads| TenantReads { curve: vec![], ..reads.clone() };
    let without_curves = |report: &CacheReport| CacheReport {
        tenants: report.tenants.iter().map(without_curve).collect(),
        ..report.clone()
    };
    let reports: Vec<_> = reports.iter().map(without_curves).collect();
    out.show(&reports, || {
        if reports.iter().all(|report| report.settings.is_none()) {
            return "no node caches reads; turn caches on: nacre route cache on --size SIZE"
                .to_owned();
        }
        let rows: Vec<_> = reports.iter().flat_map(|report| rows(report, out)).collect();
        table(&HEADER, &rows)
    })
}

/// A row for each tenant that has read, and for each cache that nobody has used.
fn rows(report: &CacheReport, out: Out) -> Vec<Vec<String>> {
    let mut rows = vec![];
    for cache in &report.caches {
        let sizes = [out.size(cache.capacity_bytes), out.size(cache.used_bytes)];
        let name = printable(&cache.cache);
        let users: Vec<_> =
            report.tenants.iter().filter(|reads| reads.cache == cache.cache).collect();
        if users.is_empty() {
            let nobody = ["-", "-", "-", "-"].map(str::to_owned);
            let start = [report.target.clone(), "-".to_owned(), name.clone()];
            rows.push([&start[..], &sizes, &nobody].concat());
        }
        for reads in users {
            let start = [report.target.clone(), printable(&reads.tenant), name.clone()];
            let counts = [
                reads.hits.to_string(),
                reads.misses.to_string(),
                format!("{:.3}", hit_ratio(reads)),
                format!("{:.0}", reads.reads_per_second),
            ];
            rows.push([&start[..], &sizes, &counts].concat());
        }
    }
    rows
}

fn hit_ratio(reads: &TenantReads) -> f64 {
    reads.hits as f64 / (reads.hits + reads.misses).max(1) as f64
}
