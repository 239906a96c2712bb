//! `nacre slo ls` and `status`: what was promised, and what tenants see.

use std::collections::BTreeMap;

use nacre::{Cluster, ClusterFile};
use nacre_node::SloTargets;
use nacre_object::Result;
use nacre_slo::{
    DirectTraffic, PresentBound, Promise, SloState, TargetReport, TenantReport, present_bounds,
};
use serde::Serialize;
use serde_json::json;

use super::{bound_name, latency, milliseconds};
use crate::listing::{Limit, Listing};
use crate::out::{Out, note, printable, table};

/// Lists the promises, each with two bounds: the bound that was computed when the promise was made,
/// and the bound that the current profiles give.
pub(super) async fn ls(cluster: &Cluster, limit: Limit, out: Out) -> Result<()> {
    const HEADER: [&str; 8] = [
        "tenant",
        "percentile",
        "promised",
        "bound",
        "longest possible",
        "with the profiles of now",
        "priority",
        "traffic",
    ];
    let state = cluster.slos().state().await?;
    let present = match present_bounds(&state) {
        Ok(present) => present,
        Err(error) => {
            note(&format!("the bounds of now are not known: {error}"));
            BTreeMap::new()
        }
    };
    if present.values().any(|present| present.has_drifted) {
        note(
            "profiles have changed since tenants were admitted: bounds of now are for what their token buckets allow; admit \
             them again with --replace",
        );
    }
    Listing::table(out, limit, &HEADER).all(
        state.promises,
        |(tenant, promise)| {
            let now = present.get(tenant);
            json!({
                "tenant": tenant.as_str(),
                "promise": promise,
                "present_bound_seconds": now.and_then(|now| now.bound_seconds),
                "has_drifted": now.map(|now| now.has_drifted),
            })
        },
        |(tenant, promise)| {
            vec![vec![
                tenant.to_string(),
                format!("p{}", promise.percentile),
                milliseconds(promise.slo_seconds),
                bound_name(promise.violation),
                milliseconds(promise.bound_seconds),
                present.get(tenant).map_or_else(|| "?".to_owned(), |now| now_text(promise, now)),
                promise.priority.to_string(),
                promise.traffic.clone(),
            ]]
        },
    )
}

/// The bound of now, where it differs from the one that was computed.
fn now_text(promise: &Promise, now: &PresentBound) -> String {
    /// Parts of the bound that come from rounding.
    const ROUNDING: f64 = 1e-3;
    let is_same = |bound: f64| (bound / promise.bound_seconds - 1.0).abs() < ROUNDING;
    let text = match now.bound_seconds {
        Some(bound) if is_same(bound) => "the same".to_owned(),
        bound => latency(bound),
    };
    if now.has_drifted { format!("{text}, drifted") } else { text }
}

/// What one tenant saw on all targets together, beside what it was promised.
#[derive(Debug, Default, Serialize)]
struct TenantStatus {
    slo_seconds: Option<f64>,
    percentile: Option<f64>,
    /// The share of the requests that may take longer, if the promise is stochastic.
    #[serde(skip_serializing_if = "Option::is_none")]
    violation: Option<f64>,
    #[serde(flatten)]
    report: TenantReport,
}

#[derive(Debug, Serialize)]
struct Status {
    enforced: bool,
    /// The program that orders requests; `None` for the built-in order.
    order: Option<String>,
    tenants: BTreeMap<String, TenantStatus>,
    /// Whose requests those on a pool are.
    pools: BTreeMap<String, String>,
    /// The shares of tenants without a promise, as far as they are set.
    weights: BTreeMap<String, f64>,
    /// The network links of nodes whose speed was stated, in bytes a second.
    link_bytes_per_second: BTreeMap<String, f64>,
    targets: Vec<TargetReport>,
}

/// Shows what tenants see.
pub(super) async fn status(file: &ClusterFile, out: Out) -> Result<()> {
    let cluster = Cluster::reach(file)?;
    let state = cluster.slos().state().await?;
    let reports = SloTargets::new(file, &cluster)?.reports().await?;
    let targets: Vec<_> = reports.into_iter().flat_map(|(_, targets)| targets).collect();
    let tenants = tenants(&state, &targets)?;
    let pools = state.pools.iter().map(|(pool, tenant)| (pool.to_string(), tenant.to_string()));
    let weights = state.weights.iter().map(|(tenant, weight)| (tenant.to_string(), *weight));
    let (pools, weights) = (pools.collect(), weights.collect());
    let links = state.links.iter();
    let links = links.map(|(node, link)| (node.to_string(), link.bytes_per_second())).collect();
    let order = state.order.as_ref().map(ToString::to_string);
    let status = Status {
        enforced: state.is_enforced,
        order,
        tenants,
        pools,
        weights,
        link_bytes_per_second: links,
        targets,
    };
    out.show(&status, || text(&status))
}

/// What tenants see, by name.
///
/// # Errors
/// `Corrupt` if a report makes no sense.
fn tenants(state: &SloState, targets: &[TargetReport]) -> Result<BTreeMap<String, TenantStatus>> {
    let mut tenants: BTreeMap<String, TenantStatus> = BTreeMap::new();
    for tenant in targets.iter().flat_map(|target| &target.tenants) {
        let all = tenants.entry(tenant.tenant.clone()).or_default();
        all.report = std::mem::take(&mut all.report).and(tenant)?;
    }
    for (tenant, promise) in &state.promises {
        let all = tenants.entry(tenant.to_string()).or_default();
        all.slo_seconds = Some(promise.slo_seconds);
        all.percentile = Some(promise.percentile);
        all.violation = promise.violation;
    }
    Ok(tenants)
}

fn text(status: &Status) -> String {
    let header = [
        "tenant",
        "promised",
        "bound",
        "p50, last minute",
        "p99",
        "p99.9",
        "p99, last hour",
        "requests",
        "within",
        "missed",
        "refused",
        "waiting",
        "tokens",
    ];
    let millis = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), milliseconds);
    let row = |(tenant, status): (&String, &TenantStatus)| {
        let TenantStatus { slo_seconds, percentile, violation, report } = status;
        let promised = slo_seconds.zip(*percentile);
        vec![
            printable(tenant),
            promised.map_or_else(
                || "-".to_owned(),
                |(slo, percentile)| format!("p{percentile} {}", milliseconds(slo)),
            ),
            promised.map_or_else(|| "-".to_owned(), |_| bound_name(*violation)),
            millis(report.minute.percentile_seconds(50.0)),
            millis(report.minute.percentile_seconds(99.0)),
            millis(report.minute.percentile_seconds(99.9)),
            millis(report.hour.percentile_seconds(99.0)),
            report.requests.to_string(),
            report.within.to_string(),
            report.misses.to_string(),
            report.refused.to_string(),
            report.queued.to_string(),
            millis(report.tokens_seconds.first().copied()),
        ]
    };
    let rows: Vec<_> = status.tenants.iter().map(row).collect();
    let word = if status.enforced { "enforced" } else { "not enforced: nacre slo enforce on" };
    let mut lines = vec![format!("promises are {word}"), table(&header, &rows)];
    if let Some(order) = &status.order {
        let decided: u64 = status.targets.iter().map(|target| target.decided_by_program).sum();
        lines.push(format!("slo/{order} orders requests: {decided} decisions so far"));
    }
    for target in &status.targets {
        let TargetReport { target, queued, outstanding, drift, direct, .. } = target;
        let drift = match drift {
            Some(drift) if *drift > 1.0 => format!(
                "; it takes {drift:.2} times as long as its profile says: nacre slo profile"
            ),
            _ => String::new(),
        };
        let direct = direct.map(|direct| beside(&direct)).unwrap_or_default();
        lines.push(format!(
            "{target}: {queued} requests wait, {outstanding} are at work{drift}{direct}"
        ));
    }
    for (pool, tenant) in &status.pools {
        lines.push(format!("requests on the pool {pool} are those of {tenant}"));
    }
    for (node, bytes) in &status.link_bytes_per_second {
        lines.push(format!("the link of {node} carries {} MB a second each way", bytes / 1e6));
    }
    for (tenant, weight) in &status.weights {
        lines.push(format!("the weight of {tenant} is {weight}"));
    }
    lines.join("\n")
}

/// Describes the traffic of clients that pass no gateway. Empty if there is none.
fn beside(direct: &DirectTraffic) -> String {
    if direct.operations_per_second == 0.0 {
        return String::new();
    }
    format!(
        "; clients that pass no gateway ask for {:.0} operations and {:.1} MB a second, {:.0}% of its time",
        direct.operations_per_second,
        direct.bytes_per_second / 1e6,
        direct.load * 1e2
    )
}
