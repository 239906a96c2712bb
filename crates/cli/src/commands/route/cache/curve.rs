//! `nacre route cache curve`: the miss-ratio curves of tenants, over all nodes.

use std::collections::BTreeMap;

use nacre_node::{CACHED_BLOCK_BYTES, CacheReport};
use nacre_object::{Error, Result, TenantName};
use nacre_route::MissRatioCurve;
use serde_json::json;

use crate::out::{Out, printable, table};

/// How many points of a curve people see. JSON has all.
const SHOWN_POINTS: usize = 16;
/// The weight of a node where a tenant does not read at present. It is so small that such nodes
/// count only if the tenant reads at no node.
const IDLE_WEIGHT: f64 = 1e-6;

/// The curve of a tenant.
#[derive(Debug)]
struct TenantCurve {
    reads_per_second: f64,
    /// Pairs of a size in bytes and a miss ratio.
    points: Vec<(u64, f64)>,
}

/// Shows them. Sizes are those of one node's cache.
pub(super) fn curve(reports: &[CacheReport], only: Option<&TenantName>, out: Out) -> Result<()> {
    let mut curves = curves(reports)?;
    if let Some(only) = only {
        curves.retain(|tenant, _| tenant == only.as_str());
        if curves.is_empty() {
            return Err(Error::not_found(format!("no node knows reads of the tenant {only}"))
                .hint("list the tenants that read cached pools: nacre route cache status"));
        }
    }
    let documents: Vec<_> = curves
        .iter()
        .map(|(tenant, curve)| {
            let points = curve
                .points
                .iter()
                .map(|(bytes, ratio)| json!({ "bytes": bytes, "miss_ratio": ratio }));
            json!({
                "tenant": tenant,
                "reads_per_second": curve.reads_per_second,
                "points": points.collect::<Vec<_>>(),
            })
        })
        .collect();
    out.show(&documents, || {
        let text = curves.iter().map(|(tenant, curve)| text(tenant, curve, out));
        text.collect::<Vec<_>>().join("\n\n")
    })
}

fn curves(reports: &[CacheReport]) -> Result<BTreeMap<String, TenantCurve>> {
    let mut of_nodes: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    let mut sizes: BTreeMap<&str, &[(u64, f64)]> = BTreeMap::new();
    for reads in reports.iter().flat_map(|report| &report.tenants) {
        let demand = reads.demand()?;
        let weight = demand.reads_per_second.max(IDLE_WEIGHT);
        of_nodes.entry(&reads.tenant).or_default().push((demand.curve, weight));
        let known = sizes.entry(&reads.tenant).or_default();
        if reads.curve.len() > known.len() {
            *known = &reads.curve;
        }
    }
    let together = |(tenant, curves): (&str, Vec<(MissRatioCurve, f64)>)| {
        let curve = MissRatioCurve::mean(&curves);
        let at = |(bytes, _): &(u64, f64)| (*bytes, curve.miss_ratio(bytes / CACHED_BLOCK_BYTES));
        let points = sizes[tenant].iter().map(at).collect();
        let reads_per_second = curves.iter().map(|(_, weight)| weight).sum();
        (tenant.to_owned(), TenantCurve { reads_per_second, points })
    };
    Ok(of_nodes.into_iter().map(together).collect())
}

fn text(tenant: &str, curve: &TenantCurve, out: Out) -> String {
    let step = curve.points.len().div_ceil(SHOWN_POINTS).max(1);
    let shown = curve.points.iter().skip(step - 1).step_by(step);
    let rows: Vec<_> =
        shown.map(|(bytes, ratio)| vec![out.size(*bytes), format!("{ratio:.3}")]).collect();
    let head = format!("{}: {:.0} reads a second", printable(tenant), curve.reads_per_second);
    format!("{head}\n{}", table(&["cache of a node", "miss ratio"], &rows))
}
