//! Reads a rule file for a running cluster, and checks it together with the cluster's existing
//! rules.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use nacre::{Cluster, ClusterFile, RoleName, Sessions};
use nacre_node::{
    EVERY_SWITCH, ROUTE_SERVICE, RouteState, check_declared, check_put_by_hand, check_supported,
    check_supported_on_ceph, route_findings as findings,
};
use nacre_object::{ApplicationName, Error, Locate, Result, TargetName};
use nacre_route::{
    Finding, Location, NamedPrograms, ROUTED_POOL, Routes, SourceMatch, StoredApplication,
    StoredInsertion, Topology,
};
use serde::Serialize;

use super::misplaced::Misplaced;
use super::programs::declarations;
use super::promises::known_promises;
use super::status::NODE_TIMEOUT;
use super::waypoints;

/// A file of rules with what is wrong with it.
pub(super) struct Checked {
    /// The applications of the file, with their insertions.
    pub applications: BTreeMap<ApplicationName, Vec<StoredInsertion>>,
    rules: usize,
    /// The findings of all switches, each finding once.
    findings: Vec<Finding>,
    /// Rules of the file that have no effect where they are.
    misplaced: Vec<Misplaced>,
    /// Rules through re-encoding waypoints that the file replaces, so that objects stay encoded.
    lost: Vec<String>,
}

/// What `check` prints.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    rules: usize,
    findings: Vec<String>,
}

impl Checked {
    /// Parses a file of rules. Checks it together with the rules of other applications, and with the
    /// programs that its rules name.
    ///
    /// # Errors
    /// `Invalid` if the file is malformed; `Unsupported` if no node can execute a rule; `NotFound`
    /// if a program is not active.
    pub async fn of(
        text: &str,
        file: &ClusterFile,
        cluster: &Cluster,
        state: &RouteState,
    ) -> Result<Self> {
        let is_ceph = file.engine().is_some();
        let targets = targets(file, cluster).await?;
        let routes = Routes::on(topology(&targets)?, text)?;
        check_topology(&routes, &targets)?;
        let own = routes.insertions.iter().flat_map(|insertion| &insertion.rules);
        let mut named = NamedPrograms::default();
        named.add(own);
        let programs = declarations(cluster, &named, &state.programs()?).await?;
        let mut applications: BTreeMap<ApplicationName, Vec<StoredInsertion>> = BTreeMap::new();
        let (mut rules, mut misplaced) = (0, vec![]);
        for insertion in &routes.insertions {
            for rule in &insertion.rules {
                check_supported(rule)?;
                check_put_by_hand(rule)?;
                if is_ceph {
                    check_supported_on_ceph(rule, insertion.switch.as_str())?;
                }
                let declared = rule.destination.program();
                let declared = declared.and_then(|name| programs.destinations.get(name));
                check_declared(rule, declared.map_or(&[][..], Vec::as_slice))?;
                waypoints::check_rule(rule, &programs)?;
            }
            rules += insertion.rules.len();
            // On Ceph, the primary OSD of an object may change at any time.
            if !is_ceph {
                misplaced.extend(Misplaced::of(insertion, cluster));
            }
            applications.entry(insertion.application.clone()).or_default().push(StoredInsertion {
                switch: insertion.switch.to_string(),
                rules: insertion.rules.iter().map(ToString::to_string).collect(),
            });
        }
        if applications.is_empty() {
            return Err(Error::invalid("the file has no application")
                .hint("put a line \"application NAME on every\" before the rules"));
        }
        let after = with_applications(state, &applications);
        let slo = known_promises(cluster).await?;
        let findings = findings(&after, &targets, &programs, &slo)?;
        let lost = waypoints::lost(state, &after, &programs)?;
        Ok(Self { applications, rules, findings, misplaced, lost })
    }

    /// The applications, as the map keeps them.
    pub fn stored(&self, is_forced: bool) -> Vec<(ApplicationName, StoredApplication)> {
        let stored = |(name, insertions): (&ApplicationName, &Vec<StoredInsertion>)| {
            let insertions = insertions.clone();
            (name.clone(), StoredApplication { order: 0, is_forced, insertions })
        };
        self.applications.iter().map(stored).collect()
    }

    fn problems(&self) -> impl Iterator<Item = String> {
        let misplaced = self.misplaced.iter().map(ToString::to_string);
        let findings = self.findings.iter().map(ToString::to_string);
        findings.chain(misplaced).chain(self.lost.iter().cloned())
    }

    pub fn report(&self) -> Report {
        Report { rules: self.rules, findings: self.problems().collect() }
    }

    pub fn text(&self) -> String {
        let mut text = format!("{} rule{}", self.rules, if self.rules == 1 { "" } else { "s" });
        for problem in self.problems() {
            let _ = write!(text, "\n{problem}");
        }
        text
    }

    /// Checks that the rules are safe, and that each rule can have an effect.
    ///
    /// # Errors
    /// `Invalid`, with the first problem.
    pub fn verdict(&self) -> Result<()> {
        let Some(first) = self.problems().next() else { return Ok(()) };
        let more = match self.problems().count() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        match (self.findings.first(), self.misplaced.first()) {
            (None, Some(misplaced)) => {
                Err(Error::invalid(format!("{first}{more}")).hint(misplaced.hint()))
            }
            (None, None) => {
                Err(Error::invalid(format!("{first}{more}")).hint(waypoints::LOST_HINT))
            }
            _ => Err(Error::invalid(format!("the rules are not safe: {first}{more}"))
                .hint("correct the rules; `nacre route check` shows all that it finds")),
        }
    }
}

/// The targets of a cluster, by which its switches are called.
pub(crate) async fn targets(file: &ClusterFile, cluster: &Cluster) -> Result<Vec<TargetName>> {
    if file.engine().is_none() {
        return Ok(cluster.store().targets());
    }
    // On Ceph the targets are the OSDs, which every gateway knows.
    let sessions = Sessions::new(file)?;
    let mut failure = Error::not_found("the cluster has no gateway");
    for node in file.with_role(RoleName::Storage) {
        let session = sessions.session(&node.name)?;
        match session.query(ROUTE_SERVICE, "targets", Bytes::new(), NODE_TIMEOUT).await {
            Ok(answer) => {
                return serde_json::from_slice::<Vec<String>>(&answer)
                    .map_err(|cause| {
                        Error::corrupt(format!("what {} says makes no sense: {cause}", node.name))
                    })?
                    .iter()
                    .map(TargetName::new)
                    .collect();
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The network that the cluster is: each target has a switch.
fn topology(targets: &[TargetName]) -> Result<Topology> {
    let mut topology = Topology::default();
    topology.switches.push((EVERY_SWITCH.parse()?, Location::Source(SourceMatch::Any)));
    for target in targets {
        let switch = target.as_str().parse()?;
        topology.switches.push((switch, Location::Target(target.clone())));
        topology.targets.insert(target.clone());
    }
    Ok(topology)
}

/// Refuses lines that describe a network. A file for a cluster holds only rules, because the
/// network is that of the cluster.
fn check_topology(routes: &Routes, targets: &[TargetName]) -> Result<()> {
    let topology = &routes.topology;
    let is_own =
        |name: &str| name == EVERY_SWITCH || targets.iter().any(|target| target.as_str() == name);
    let more = topology.switches.iter().find(|(name, _)| !is_own(name.as_str()));
    let refuse = |what: String| {
        Err(Error::unsupported(what).hint(
            "name the switch of a target, or every for all of them; leave out all lines but applications and rules",
        ))
    };
    if let Some((name, _)) = more {
        return refuse(format!("there is no switch {name}: each target has one of its name"));
    }
    if let Some(layer) = topology.layers.keys().next() {
        return refuse(format!("no IO is given back from the layer {layer}"));
    }
    if let Some(target) = topology.targets.iter().find(|name| !is_own(name.as_str())) {
        return refuse(format!("there is no target {target}"));
    }
    if let Some(program) = topology.programs.keys().next() {
        return refuse(format!("the program {program} itself declares where it sends IO"));
    }
    if let Some(target) = topology.links.iter().next() {
        return refuse(format!("the link of {target} is known: `nacre slo status` shows it"));
    }
    if let Some(tenant) = topology.promises.keys().next() {
        return refuse(format!("what {tenant} is promised is known: `nacre slo ls` shows it"));
    }
    if !topology.pools.is_empty() || !routes.reserved.is_empty() || !routes.grants.is_empty() {
        return refuse(format!(
            "routed bytes lie in {ROUTED_POOL} alone; pools and grants are those of the cluster"
        ));
    }
    Ok(())
}

/// The rules as they are with these applications.
fn with_applications(
    state: &RouteState,
    applications: &BTreeMap<ApplicationName, Vec<StoredInsertion>>,
) -> RouteState {
    let mut after = state.clone();
    let mut next = state.applications.values().map(|one| one.order + 1).max().unwrap_or(0);
    for (name, insertions) in applications {
        let order = state.applications.get(name).map_or(next, |old| old.order);
        next = next.max(order + 1);
        let insertions = insertions.clone();
        let stored = StoredApplication { order, is_forced: false, insertions };
        after.applications.insert(name.clone(), stored);
    }
    after
}
