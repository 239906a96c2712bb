//! Re-encoding waypoints: rules through them must not go while objects are encoded, and their code
//! must not change.

use std::sync::Arc;

use nacre::{Cluster, ProgramId, ProgramKind};
use nacre_clock::{Clock, SystemClock};
use nacre_node::{EVERY_SWITCH, KnownPrograms, RouteState, check_waypoint};
use nacre_object::{Error, Result};
use nacre_route::{Destination, NamedPrograms, Rule, WaypointProgram};

use super::programs::declarations;

/// What to do before a rule of a re-encoding waypoint goes.
pub(super) const LOST_HINT: &str = "first read these objects and write them under names without the rule; objects that stay encoded can be read again once the rule is back";

/// The compiled version of a waypoint.
///
/// # Errors
/// `NotFound`; `Fault` if it does not compile.
pub(super) async fn compiled(
    cluster: &Cluster,
    program: &ProgramId,
    version: u64,
) -> Result<WaypointProgram> {
    let shown = cluster.programs().show(program, Some(version)).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    WaypointProgram::compile(&program.to_string(), version, shown.source.as_str(), &clock)
}

/// The rules through re-encoding waypoints that a change of rules takes away, each as a problem. IO
/// that such a rule matched would meet bytes as they are stored.
pub(super) fn lost(
    before: &RouteState,
    after: &RouteState,
    known: &KnownPrograms,
) -> Result<Vec<String>> {
    let encodes = |rule: &Rule| {
        let kind = rule.destination.waypoint_program().and_then(|name| known.waypoints.get(&name));
        kind.is_some_and(|kind| kind.encodes)
    };
    let all = |state: &RouteState| -> Result<Vec<(String, Rule)>> {
        let rules = state
            .rules()?
            .into_iter()
            .flat_map(|(switch, rules)| rules.into_iter().map(move |rule| (switch.clone(), rule)));
        Ok(rules.filter(|(_, rule)| encodes(rule)).collect())
    };
    let after = all(after)?;
    let is_kept = |switch: &str, rule: &Rule| {
        after.iter().any(|(other, new)| {
            (other == EVERY_SWITCH || other == switch)
                && new.destination == rule.destination
                && new.header.covers(&rule.header)
        })
    };
    let lost = all(before)?.into_iter().filter(|(switch, rule)| !is_kept(switch, rule));
    let text = |(_, rule): (String, Rule)| {
        format!("objects that stay encoded: the rule \"{rule}\" of {} goes", rule.application)
    };
    Ok(lost.map(text).collect())
}

/// The same for a change of the cluster's rules.
///
/// # Errors
/// `Unavailable`; `Invalid` if a rule is malformed.
pub(super) async fn lost_in(
    cluster: &Cluster,
    before: &RouteState,
    after: &RouteState,
) -> Result<Vec<String>> {
    let named = before.programs()?;
    match named.waypoints.is_empty() {
        true => Ok(vec![]),
        false => {
            let known = declarations(cluster, &NamedPrograms::default(), &named).await?;
            lost(before, after, &known)
        }
    }
}

/// Refuses a version of a waypoint that installed rules name, if it has other code than the version
/// that has encoded the bytes of objects, or if it does not fit the rules.
///
/// # Errors
/// `Conflict` for other code; `Unsupported` if the rules do not fit.
pub(super) async fn check_version(
    cluster: &Cluster,
    state: &RouteState,
    program: &ProgramId,
    version: u64,
    known: &mut KnownPrograms,
) -> Result<()> {
    let new = compiled(cluster, program, version).await?;
    if let Some(active) = cluster.programs().active(program).await? {
        let old = compiled(cluster, program, active).await?;
        let is_same = old.mark(&program.name).is_same_code(&new.mark(&program.name));
        if old.kind().encodes && !is_same {
            let text = format!(
                "{program} version {active} has encoded bytes of objects, and version {version} could not decode them"
            );
            return Err(Error::conflict(text).hint(
                "put the new program under another name, with a rule for new objects; or first read the objects and remove the rules: nacre route rm APPLICATION",
            ));
        }
    }
    known.waypoints.insert(program.name.clone(), new.kind());
    let rules = state.rules()?;
    rules
        .iter()
        .flat_map(|(_, rules)| rules)
        .try_for_each(|rule| check_waypoint(rule, &known.waypoints))
}

/// Whether a program is a waypoint.
pub(super) fn is_waypoint(program: &ProgramId) -> bool {
    program.kind == ProgramKind::Waypoint
}

/// Checks that a rule fits the waypoint to which it sends IO, if it sends IO to one.
pub(super) fn check_rule(rule: &Rule, known: &KnownPrograms) -> Result<()> {
    match rule.destination {
        Destination::Waypoint(_) => check_waypoint(rule, &known.waypoints),
        _ => Ok(()),
    }
}
