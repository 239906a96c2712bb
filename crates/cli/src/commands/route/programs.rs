//! The route programs that rules name: their declared destinations, and the check of a new version.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{
    EVERY_SWITCH, ROUTE_SERVICE, RouteMap, RouteState, check_declared, route_findings as findings,
};
use nacre_object::{Error, ErrorKind, Locate, ProgramName, Result, TargetName};
use nacre_route::{Destination, RouteProgram};

use super::promises::known_promises;
use super::status::NODE_TIMEOUT;

/// The destinations that programs declare.
pub(super) type Declarations = BTreeMap<ProgramName, Vec<Destination>>;

/// The destinations that the active versions of programs declare. Programs in `needed` must be
/// active.
///
/// # Errors
/// `NotFound` if a needed program is not active; the hint says how to activate it. `Unavailable` if
/// the cluster does not answer.
pub(super) async fn declarations(
    cluster: &Cluster,
    needed: &BTreeSet<ProgramName>,
    known: &BTreeSet<ProgramName>,
) -> Result<Declarations> {
    let mut declared = Declarations::new();
    for name in needed.union(known) {
        let id = ProgramId::new(ProgramKind::Route, name.clone());
        match cluster.programs().active(&id).await? {
            Some(version) => {
                declared.insert(name.clone(), destinations(cluster, &id, version).await?);
            }
            None if needed.contains(name) => {
                let text = format!("{id} has no active version, so no rule can name it");
                return Err(Error::not_found(text).hint(format!(
                    "put and activate a route program: nacre program put {id} FILE --activate"
                )));
            }
            None => {}
        }
    }
    Ok(declared)
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
    let routes = versions.iter().filter(|(program, _)| program.kind == ProgramKind::Route);
    let routes: Vec<_> = routes.collect();
    if routes.is_empty() {
        return Ok(());
    }
    let state = match RouteMap::new(cluster.maps().clone()).state().await {
        // Nodes check again, and keep the version before.
        Err(error) if error.kind() == ErrorKind::Denied => return Ok(()),
        state => state?,
    };
    let known = state.programs()?;
    if !routes.iter().any(|(program, _)| known.contains(&program.name)) {
        return Ok(());
    }
    let before = declarations(cluster, &BTreeSet::new(), &known).await?;
    let mut after = before.clone();
    for (program, version) in routes {
        let declared = destinations(cluster, program, *version).await?;
        after.insert(program.name.clone(), declared);
    }
    for rule in state.rules()?.iter().flat_map(|(_, rules)| rules) {
        let Destination::Program(name) = &rule.destination else { continue };
        check_declared(rule, after.get(name).map_or(&[][..], Vec::as_slice))?;
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
