//! Promised latencies and rules. A rule may send the IO of a tenant to a target at which the tenant's
//! traffic was not admitted. Then the promise to the tenant does not hold.
//!
//! `nacre route` checks new rules with the promises that [`known_promises`] returns. `nacre slo admit`,
//! `pool` and `link` check their changes with the installed rules by [`check_slo_change`].

use nacre::{Cluster, ClusterFile};
use nacre_node::{RouteMap, route_findings as findings};
use nacre_object::{Error, ErrorKind, Result, TenantName};
use nacre_route::{Finding, FindingKind, NamedPrograms};
use nacre_slo::SloState;

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

/// Refuses a change of promises, of the tenants of pools, or of links, after which an installed rule
/// would break a promise that it does not break now. A promise to `promised` is new: no rule may
/// break it.
///
/// # Errors
/// `Invalid` with the rule and an IO that it sends elsewhere; `Unavailable`.
pub(crate) async fn check_slo_change(
    file: &ClusterFile,
    cluster: &Cluster,
    promised: Option<&TenantName>,
    change: impl FnOnce(&mut SloState),
) -> Result<()> {
    let routes = RouteMap::new(cluster.maps().clone()).state().await?;
    if routes.applications.is_empty() {
        return Ok(());
    }
    let before = cluster.slos().state().await?;
    let mut after = before.clone();
    change(&mut after);
    let programs = declarations(cluster, &NamedPrograms::default(), &routes.programs()?).await?;
    let targets = targets(file, cluster).await?;
    let known = findings(&routes, &targets, &programs, &before)?;
    let found = findings(&routes, &targets, &programs, &after)?;
    let breaks = |one: &&Finding| {
        let tenant = broken_promise(one);
        tenant.is_some() && (tenant == promised || !known.contains(one))
    };
    match found.iter().find(breaks) {
        None => Ok(()),
        Some(finding) => Err(Error::invalid(format!(
            "installed rules send IO where a promise would not hold: {finding}"
        ))
        .hint("remove the rules (nacre route rm APPLICATION), or name in them the tenants that they are for")),
    }
}

/// The tenant whose promise a rule breaks.
fn broken_promise(finding: &Finding) -> Option<&TenantName> {
    match &finding.kind {
        FindingKind::PromiseLeft { tenant, .. } | FindingKind::UncountedLink { tenant, .. } => {
            Some(tenant)
        }
        _ => None,
    }
}
