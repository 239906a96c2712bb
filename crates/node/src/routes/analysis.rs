//! The analysis of all rules of a cluster: what would go wrong if they were in force.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{Error, ProgramName, Result, TargetName, TenantName};
use nacre_route::{
    Destination, Finding, LayerName, Location, ObjectMatch, ROUTED_POOL, Routes, SourceMatch,
    StoredApplication, WaypointKind, check,
};
use nacre_slo::{Promise, SloState};

use super::state::{EVERY_SWITCH, RouteState};
use crate::cache::CACHE_LAYER;

/// What the programs declare that rules name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownPrograms {
    /// The destinations of route programs.
    pub destinations: BTreeMap<ProgramName, Vec<Destination>>,
    /// What waypoints do.
    pub waypoints: BTreeMap<ProgramName, WaypointKind>,
}

/// Checks that the switches exist to which an application gives rules.
///
/// # Errors
/// `Invalid` for a switch that does not exist.
pub fn check_switches(application: &StoredApplication, targets: &[TargetName]) -> Result<()> {
    let is_known =
        |name: &str| name == EVERY_SWITCH || targets.iter().any(|target| target.as_str() == name);
    match application.insertions.iter().find(|one| !is_known(&one.switch)) {
        None => Ok(()),
        Some(one) => Err(Error::invalid(format!("there is no switch {}", one.switch))
            .hint("name a target, or every: `nacre status` lists the targets")),
    }
}

/// The findings of the analysis at the switch of each target, with the rules of all applications.
/// `programs` says what the programs of rules declare, and `slo` which tenants have a promised
/// latency.
///
/// # Errors
/// `Invalid` if a rule is malformed; `Exhausted` if the rules are too many to analyse.
pub fn findings(
    after: &RouteState,
    targets: &[TargetName],
    programs: &KnownPrograms,
    slo: &SloState,
) -> Result<Vec<Finding>> {
    let all = after.rules()?;
    let promises = promises(slo)?;
    let mut findings: Vec<Finding> = vec![];
    for target in targets {
        let mut network = Routes::default();
        network.topology.targets.extend(targets.iter().cloned());
        network.topology.programs = programs.destinations.clone();
        network.topology.tenants = slo.pools.clone();
        network.topology.promises = promises.clone();
        // An embedded target is the node of the same name, so IO from one target to another passes
        // the links of both nodes. On Ceph, gateways send IO to each OSD directly.
        let has_link =
            |target: &&TargetName| slo.links.keys().any(|node| node.as_str() == target.as_str());
        network.topology.links = targets.iter().filter(has_link).cloned().collect();
        network.topology.has_current_copies = true;
        let cache: LayerName = CACHE_LAYER.parse()?;
        network.topology.layers.insert(cache.clone(), None);
        network.topology.write_through.insert(cache);
        for (name, kind) in &programs.waypoints {
            let layer: LayerName = name.as_str().parse()?;
            network.topology.layers.insert(layer.clone(), None);
            network.topology.encoding.extend(kind.encodes.then_some(layer));
        }
        network.topology.switches =
            vec![(EVERY_SWITCH.parse()?, Location::Source(SourceMatch::Any))];
        network.topology.pools.insert(ROUTED_POOL.parse()?);
        network.reserved.push(ObjectMatch::parse(&format!("{ROUTED_POOL}/*"))?);
        for (switch, rules) in &all {
            if switch != EVERY_SWITCH && switch != target.as_str() {
                continue;
            }
            // The analysis takes every pool that a rule names for one that exists. If a rule has only the
            // beginning of a pool's name, the analysis takes this beginning for a pool.
            let pools = rules.iter().filter_map(|rule| pool_of(&rule.header.object));
            network.topology.pools.extend(pools.filter_map(|pool| pool.parse().ok()));
            let Some(application) = rules.first().map(|rule| rule.application.clone()) else {
                continue;
            };
            network.insertions.push(nacre_route::Insertion {
                application,
                switch: EVERY_SWITCH.parse()?,
                rules: rules.clone(),
            });
        }
        for finding in check(&network)?.findings {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

/// For each tenant with a promise, the targets for which its traffic was admitted.
fn promises(slo: &SloState) -> Result<BTreeMap<TenantName, BTreeSet<TargetName>>> {
    let targets = |promise: &Promise| promise.targets().map(str::parse).collect::<Result<_>>();
    let of = |(tenant, promise): (&TenantName, &Promise)| Ok((tenant.clone(), targets(promise)?));
    slo.promises.iter().map(of).collect()
}

fn pool_of(object: &ObjectMatch) -> Option<&str> {
    let text = match object {
        ObjectMatch::Exact(id) => return Some(id.pool.as_str()),
        ObjectMatch::Prefix(prefix) => prefix.as_str(),
        ObjectMatch::Pattern(pattern) => pattern.literal_prefix(),
    };
    Some(text.split_once('/').map_or(text, |(pool, _)| pool))
}
