//! Promised latencies and rules. A rule may send the IO of a tenant to a target at which the tenant's
//! traffic was not admitted. Then the promise to the tenant does not hold.
//!
//! `nacre route` checks new rules with the promises that [`known_promises`] returns. `nacre slo admit`
//! checks a new promise with the installed rules by [`check_promise`].

use std::collections::BTreeSet;

use nacre::{Cluster, ClusterFile};
use nacre_node::{RouteMap, route_findings as findings};
use nacre_object::{Error, ErrorKind, Result, TenantName};
use nacre_route::{Finding, FindingKind};
use nacre_slo::{Promise, SloState};

use super::file::targets;
use super::programs::declarations;
use crate::out::note;

/// The promises and the tenants of pools. If the node that keeps the map `slo` is down, there are
/// none, and the user is told so: rules must be able to change while a node is down.
///
/// # Errors
/// `Denied`; `Corrupt` if the map is malformed.
pub(super) async fn known_promises(cluster: &Cluster) -> Result<SloState> {
    match cluster.slos().state().await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            note(&format!("what tenants are promised could not be considered: {error}"));
            Ok(SloState::default())
        }
        state => state,
    }
}

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
