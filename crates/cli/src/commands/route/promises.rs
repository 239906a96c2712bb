//! Checks a promise to a tenant against the installed rules, which may send the tenant's IO to
//! targets for which the promise was not computed.

use std::collections::BTreeSet;

use nacre::{Cluster, ClusterFile};
use nacre_node::{RouteMap, route_findings as findings};
use nacre_object::{Error, Result, TenantName};
use nacre_route::{Finding, FindingKind};
use nacre_slo::Promise;

use super::file::targets;
use super::programs::declarations;

/// Refuses a promise that the installed rules would break.
///
/// # Errors
/// `Invalid` with the rule and an IO that it sends elsewhere; `Unavailable`.
pub(crate) async fn check_promise(
    file: &ClusterFile,
    cluster: &Cluster,
    tenant: &TenantName,
    promise: &Promise,
) -> Result<()> {
    let routes = RouteMap::new(cluster.maps().clone()).state().await?;
    if routes.applications.is_empty() {
        return Ok(());
    }
    let mut slo = cluster.slos().state().await?;
    slo.promises.insert(tenant.clone(), promise.clone());
    let programs = declarations(cluster, &BTreeSet::new(), &routes.programs()?).await?;
    let found = findings(&routes, &targets(file, cluster).await?, &programs, &slo)?;
    let breaks = |finding: &&Finding| match &finding.kind {
        FindingKind::PromiseLeft { tenant: own, .. }
        | FindingKind::UncountedLink { tenant: own, .. } => own == tenant,
        _ => false,
    };
    match found.iter().find(breaks) {
        None => Ok(()),
        Some(finding) => Err(Error::invalid(format!(
            "installed rules send IO of {tenant} where the promise would not hold: {finding}"
        ))
        .hint("remove the rules (nacre route rm APPLICATION), or name in them the tenants that they are for")),
    }
}
