//! The programs that rules name: what they declare, and the check of a new version.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{
    EVERY_SWITCH, KnownPrograms, ROUTE_SERVICE, RouteMap, RouteState, check_declared,
    route_findings as findings,
};
use nacre_object::{Error, ErrorKind, Locate, Result, TargetName};
use nacre_route::{Destination, NamedPrograms, RouteProgram};

use super::promises::known_promises;
use super::status::NODE_TIMEOUT;
use super::waypoints;

/// What the active versions of programs declare. Programs in `needed` must be active.
///
/// # Errors
/// `NotFound` if a needed program is not active; the hint says how to activate it. `Unavailable` if
/// the cluster does not answer.
pub(super) async fn declarations(
    cluster: &Cluster,
    needed: &NamedPrograms,
    known: &NamedPrograms,
) -> Result<KnownPrograms> {
    let mut declared = KnownPrograms::default();
    for name in needed.routes.union(&known.routes) {
        let id = ProgramId::new(ProgramKind::Route, name.clone());
        if let Some(version) = active(cluster, &id, needed.routes.contains(name)).await? {
            let destinations = destinations(cluster, &id, version).await?;
            declared.destinations.insert(name.clone(), destinations);
        }
    }
    for name in needed.waypoints.union(&known.waypoints) {
        let id = ProgramId::new(ProgramKind::Waypoint, name.clone());
        if let Some(version) = active(cluster, &id, needed.waypoints.contains(name)).await? {
            let kind = waypoints::compiled(cluster, &id, version).await?.kind();
            declared.waypoints.insert(name.clone(), kind);
        }
    }
    Ok(declared)
}

/// The active version of a program.
async fn active(cluster: &Cluster, id: &ProgramId, is_needed: bool) -> Result<Option<u64>> {
    let version = cluster.programs().active(id).await?;
    if version.is_none() && is_needed {
        let text = format!("{id} has no active version, so no rule can name it");
        return Err(Error::not_found(text).hint(format!(
            "put and activate the program: nacre program put {id} FILE --activate"
        )));
    }
    Ok(version)
}

async fn destinations(
    cluster: &Cluster,
    program: &ProgramId,
    version: u64,
) -> Result<Vec<Destination>> {
    let shown = cluster.programs().show(program, Some(version)).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let compiled =
        RouteProgram::compile(&program.to_string(), version, shown.source.as_str(), &clock)?;
    Ok(compiled.destinations().to_vec())
}

/// Refuses versions of programs that would make the installed rules unsafe.
///
/// # Errors
/// `Invalid` with the first finding that these versions cause; `Unsupported` if nodes cannot
/// execute a rule with a version; `Unavailable`.
pub(crate) async fn check_versions(cluster: &Cluster, versions: &[(ProgramId, u64)]) -> Result<()> {
    let is_of_rules =
        |program: &ProgramId| program.kind == ProgramKind::Route || waypoints::is_waypoint(program);
    let routes: Vec<_> = versions.iter().filter(|(program, _)| is_of_rules(program)).collect();
    if routes.is_empty() {
        return Ok(());
    }
    let state = match RouteMap::new(cluster.maps().clone()).state().await {
        // Nodes check again, and keep the version before.
        Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
        state => state?,
    };
    let known = state.programs()?;
    let is_named = |program: &ProgramId| match waypoints::is_waypoint(program) {
        true => known.waypoints.contains(&program.name),
        false => known.routes.contains(&program.name),
    };
    let routes: Vec<_> = routes.into_iter().filter(|(program, _)| is_named(program)).collect();
    if routes.is_empty() {
        return Ok(());
    }
    let before = declarations(cluster, &NamedPrograms::default(), &known).await?;
    let mut after = before.clone();
    for (program, version) in routes {
        if waypoints::is_waypoint(program) {
            waypoints::check_version(cluster, &state, program, *version, &mut after).await?;
            continue;
        }
        let declared = destinations(cluster, program, *version).await?;
        after.destinations.insert(program.name.clone(), declared);
    }
    for rule in state.rules()?.iter().flat_map(|(_, rules)| rules) {
        let Destination::Program(name) = &rule.destination else { continue };
        check_declared(rule, after.destinations.get(name).map_or(&[][..], Vec::as_slice))?;
    }
    let targets = rule_targets(cluster, &state).await?;
    let slo = known_promises(cluster).await?;
    let old = findings(&state, &targets, &before, &slo)?;
    let new = findings(&state, &targets, &after, &slo)?;
    match new.iter().find(|finding| !old.contains(finding)) {
        None => Ok(()),
        Some(finding) => Err(Error::invalid(format!(
            "the installed rules would be unsafe with this version: {finding}"
        ))
        .hint("correct the program, or remove the rules that name it: nacre route rm APPLICATION")),
    }
}

/// The targets that rules may name, as a node says: on Ceph they are the OSDs. Without an answer,
/// the cluster's own targets, and those that installed rules name.
async fn rule_targets(cluster: &Cluster, state: &RouteState) -> Result<Vec<TargetName>> {
    let transport = &cluster.log_env().sequencers;
    for node in cluster.nodes().list().await?.into_iter().filter(|node| node.up) {
        let asked =
            transport.ask(&node.name, ROUTE_SERVICE, "targets", Bytes::new(), NODE_TIMEOUT).await;
        // A node that stores nothing has no such service.
        let names =
            asked.ok().and_then(|answer| serde_json::from_slice::<Vec<String>>(&answer).ok());
        if let Some(names) = names {
            return names.iter().map(TargetName::new).collect();
        }
    }
    let mut targets: BTreeSet<_> = cluster.store().targets().into_iter().collect();
    for (switch, rules) in state.rules()? {
        if switch != EVERY_SWITCH {
            targets.insert(switch.parse()?);
        }
        for rule in rules {
            if let Destination::Target(target) = rule.destination {
                targets.insert(target);
            }
        }
    }
    Ok(targets.into_iter().collect())
}
