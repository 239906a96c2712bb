//! Analyses rules: follows one IO of each kind through all switches, and judges where it ends.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{EntityName, ObjectId, Result, TenantName};

use super::findings::{Checked, Finding, FindingKind};
use super::reads::{is_encoded_alike, sees};
use super::trace::{End, Endpoint, Hop, Network, Reason, Way, trace};
use super::witnesses::witnesses;
use crate::file::Routes;
use crate::limits::MAX_FINDINGS_OF_A_KIND;
use crate::model::{
    ApplicationName, Destination, Io, LayerName, ObjectMatch, Operation, Rule, RuleId, SourceMatch,
    Span, SwitchName,
};
use crate::rules::RuleTable;

/// Finds these problems in rules: loops, black holes, shadowed rules, reads that can miss a routed
/// write, applications that contradict each other, and rules that circumvent grants.
///
/// It reports a problem if and only if some IO shows it, with one exception. Rules do not say on
/// which target an object lies when no rule moves it. So the analysis assumes that this target
/// differs from every target that a rule names.
///
/// # Errors
/// `Exhausted` if the rules do not fit into a switch, or split one IO too often.
pub fn check(routes: &Routes) -> Result<Checked> {
    let network = Network::new(routes)?;
    let found = witnesses(&matchers(routes));
    let mut analysis = Analysis { routes, network, checked: Checked::default() };
    if !found.is_complete {
        analysis.add(FindingKind::Incomplete, None, None, None);
    }
    let is_known = |object: &ObjectId| routes.topology.pools.contains(&object.pool);
    let objects: Vec<_> = found.objects.into_iter().filter(is_known).collect();
    for object in &objects {
        analysis.follow(object)?;
    }
    analysis.compare_rules(&objects)?;
    Ok(analysis.checked)
}

/// All object matchers in the rules, the grants and the network. The analysis treats two objects
/// alike if they match the same matchers.
fn matchers(routes: &Routes) -> BTreeSet<ObjectMatch> {
    let rules = || routes.insertions.iter().flat_map(|insertion| &insertion.rules);
    let mut all: BTreeSet<_> = rules().map(|rule| rule.header.object.clone()).collect();
    let rights: Vec<_> =
        routes.grants.iter().map(|grant| &grant.object).chain(&routes.reserved).collect();
    all.extend(rights.iter().map(|object| (*object).clone()));
    let pools = &routes.topology.pools;
    all.extend(pools.iter().map(|pool| ObjectMatch::Prefix(format!("{pool}/"))));
    // A rule may send IO to an object of the same name in another pool. Then the grants on that
    // object decide, too.
    for rule in rules() {
        for destination in routes.topology.possible(&rule.destination) {
            let Destination::Pool(to) = destination else { continue };
            for object in &rights {
                for from in pools {
                    all.extend(in_pool(object, to.as_str(), from.as_str()));
                }
            }
        }
    }
    all
}

/// The matcher of the same names in another pool.
fn in_pool(object: &ObjectMatch, from: &str, to: &str) -> Option<ObjectMatch> {
    let moved = |text: &str| {
        let name = text.strip_prefix(from)?.strip_prefix('/')?;
        Some(format!("{to}/{name}"))
    };
    match object {
        ObjectMatch::Exact(id) => moved(&id.to_string())?.parse().ok().map(ObjectMatch::Exact),
        ObjectMatch::Prefix(prefix) => moved(prefix).map(ObjectMatch::Prefix),
        ObjectMatch::Pattern(_) => None,
    }
}

struct Analysis<'a> {
    routes: &'a Routes,
    network: Network<'a>,
    checked: Checked,
}

/// The entity that sends an IO, and its tenant.
type Source = (EntityName, TenantName);

impl Analysis<'_> {
    fn add(
        &mut self,
        kind: FindingKind,
        io: Option<Io>,
        way: Option<Way>,
        missed: Option<(Io, Way)>,
    ) {
        let findings = &mut self.checked.findings;
        // Many IOs show the same problem. The analysis keeps one example for each kind of problem
        // and each path through the rules. For a read that misses a write, it keeps one for each
        // pair of paths.
        let rules =
            |way: &Option<Way>| way.iter().flat_map(|way| way.hops.clone()).collect::<Vec<_>>();
        let key = |missed: &Option<(Io, Way)>| {
            missed.iter().flat_map(|(_, w)| w.hops.clone()).collect::<Vec<_>>()
        };
        let is_same = |other: &&Finding| {
            other.kind == kind
                && rules(&other.way) == rules(&way)
                && key(&other.missed) == key(&missed)
        };
        let alike =
            |other: &&Finding| std::mem::discriminant(&other.kind) == std::mem::discriminant(&kind);
        if findings.iter().any(|other| is_same(&other))
            || findings.iter().filter(alike).count() >= MAX_FINDINGS_OF_A_KIND
        {
            return;
        }
        findings.push(Finding { kind, io, way, missed });
    }

    fn is_permitted(&self, io: &Io, object: &ObjectId) -> bool {
        let grants = &self.routes.grants;
        grants.is_empty()
            || grants
                .iter()
                .any(|grant| grant.permits(&io.source, &io.tenant, io.operation, object))
    }

    /// The sources of IO to analyse for an object:
    ///
    /// - each source that rules, grants or switches name;
    /// - of the tenants whose traffic was admitted at the same targets, one;
    /// - one that stands for all others.
    ///
    /// If an operator has assigned the object's pool to a tenant, that is the only tenant.
    fn sources(&self, object: &ObjectId) -> Vec<Source> {
        let rules = self.routes.insertions.iter().flat_map(|insertion| &insertion.rules);
        let about = rules.map(|rule| (&rule.header.object, &rule.header.source));
        let grants = self.routes.grants.iter().map(|grant| (&grant.object, &grant.source));
        let located = self.routes.topology.switches.iter().filter_map(|(_, at)| match at {
            crate::file::Location::Source(source) => Some(source),
            _ => None,
        });
        // A rule may send an IO to another object, on which its source also needs a grant. So the
        // grants on all objects count.
        let named = about.filter(|(matcher, _)| matcher.matches(object)).map(|(_, source)| source);
        let named = named.chain(grants.map(|(_, source)| source)).chain(located);
        let (mut entities, mut tenants) = (BTreeSet::new(), BTreeSet::new());
        for source in named {
            match source {
                SourceMatch::Entity(name) => drop(entities.insert(name.clone())),
                SourceMatch::Tenant(name) => drop(tenants.insert(name.clone())),
                SourceMatch::Any | SourceMatch::Layer(_) => {}
            }
        }
        let other = (1..).find_map(|n: u32| {
            let name = format!("somebody{}", if n == 1 { String::new() } else { n.to_string() });
            let (entity, tenant) = (EntityName::new(&name).ok()?, TenantName::new(&name).ok()?);
            (!entities.contains(&entity) && !tenants.contains(&tenant)).then_some((entity, tenant))
        });
        if let Some((entity, tenant)) = other {
            entities.insert(entity);
            tenants.insert(tenant);
        }
        // Tenants that no rule names differ only in the targets of their promises.
        let mut by_promise = BTreeMap::new();
        for (tenant, targets) in &self.routes.topology.promises {
            if !tenants.contains(tenant) {
                by_promise.entry(targets).or_insert(tenant);
            }
        }
        tenants.extend(by_promise.into_values().cloned());
        if let Some(owner) = self.routes.topology.tenants.get(&object.pool) {
            tenants = [owner.clone()].into();
        }
        let pair = |entity: &EntityName| {
            tenants.iter().map(|tenant| (entity.clone(), tenant.clone())).collect::<Vec<_>>()
        };
        entities.iter().flat_map(pair).collect()
    }

    /// Follows every kind of IO on one object.
    fn follow(&mut self, object: &ObjectId) -> Result<()> {
        let (mut reads, mut writes) = (vec![], vec![]);
        for (source, tenant) in self.sources(object) {
            for operation in Operation::ALL {
                for span in [Some(Span::WHOLE), None] {
                    let (source, tenant, object) = (source.clone(), tenant.clone(), object.clone());
                    let io = Io { source, tenant, via: None, operation, object, span, home: None };
                    if !self.is_permitted(&io, &io.object) {
                        continue;
                    }
                    for way in trace(&self.network, &io)? {
                        let io = Io { span: way.span, ..io.clone() };
                        self.judge(&io, &way);
                        match operation {
                            Operation::Read if span.is_some() => reads.push((io, way)),
                            Operation::Write if span.is_some() => writes.push((io, way)),
                            _ => {}
                        }
                    }
                }
            }
        }
        for (io, way) in &reads {
            for (written, write_way) in &writes {
                let is_over = io.span.zip(written.span).is_some_and(|(a, b)| a.overlaps(b));
                let kind = match is_encoded_alike(way, write_way) {
                    false => FindingKind::EncodedOtherwise,
                    true => FindingKind::MissedWrite,
                };
                let is_wrong = kind == FindingKind::EncodedOtherwise || !sees(way, write_way);
                if is_over && is_wrong {
                    let missed = Some((written.clone(), write_way.clone()));
                    let (io, way) = (Some(io.clone()), Some(way.clone()));
                    self.add(kind, io, way, missed);
                }
            }
        }
        Ok(())
    }

    fn judge(&mut self, io: &Io, way: &Way) {
        let example = || (Some(io.clone()), Some(way.clone()));
        let (found, path) = example();
        let endpoints: &[Endpoint] = match &way.end {
            End::Loop => return self.add(FindingKind::Loop, found, path, None),
            End::Missing(missing) => {
                let missing = missing.clone();
                return self.add(FindingKind::BlackHole { missing }, found, path, None);
            }
            End::Controller => &[],
            End::Served(endpoint) => std::slice::from_ref(endpoint),
            End::Scattered { among, .. } => among,
        };
        if let Some(kind) = self.broken_promise(io, endpoints) {
            let (io, path) = example();
            self.add(kind, io, path, None);
        }
        let is_reserved =
            |object: &ObjectId| self.routes.reserved.iter().any(|prefix| prefix.matches(object));
        let is_foreign = |endpoint: &Endpoint| {
            let object = &endpoint.object;
            *object != io.object && !is_reserved(object) && !self.is_permitted(io, object)
        };
        if endpoints.iter().any(is_foreign) {
            self.add(FindingKind::GrantCircumvented, found, path, None);
        }
    }

    /// Why a promise to the IO's tenant does not hold at one of the endpoints. Objects that store
    /// routed data may be at any target.
    fn broken_promise(&self, io: &Io, endpoints: &[Endpoint]) -> Option<FindingKind> {
        let topology = &self.routes.topology;
        let admitted = topology.promises.get(&io.tenant)?;
        let is_reserved =
            |object: &ObjectId| self.routes.reserved.iter().any(|prefix| prefix.matches(object));
        if is_reserved(&io.object) {
            // No client can send such an IO.
            return None;
        }
        let anywhere = endpoints.iter().any(|one| one.target.is_none() && is_reserved(&one.object));
        let named = endpoints.iter().filter_map(|endpoint| endpoint.target.as_ref());
        let mut reached = named.chain(topology.targets.iter().filter(|_| anywhere)).peekable();
        let first = (*reached.peek()?).clone();
        let tenant = io.tenant.clone();
        match reached.find(|target| !admitted.contains(*target)) {
            Some(target) => Some(FindingKind::PromiseLeft { tenant, target: target.clone() }),
            None if topology.links.is_empty() => None,
            None => Some(FindingKind::UncountedLink { tenant, target: first }),
        }
    }

    /// Checks each switch by itself. Reports rules that no IO matches, and applications that
    /// contradict each other.
    fn compare_rules(&mut self, objects: &[ObjectId]) -> Result<()> {
        let switches: Vec<SwitchName> = self.network.tables.keys().cloned().collect();
        for switch in switches {
            let Some(table) = self.network.tables.remove(&switch) else { continue };
            let result = self.compare_rules_of(&switch, &table, objects);
            self.network.tables.insert(switch, table);
            result?;
        }
        Ok(())
    }

    fn compare_rules_of(
        &mut self,
        switch: &SwitchName,
        table: &RuleTable,
        objects: &[ObjectId],
    ) -> Result<()> {
        let layers: BTreeSet<Option<LayerName>> = table
            .rules()
            .filter_map(|(_, rule)| match &rule.header.source {
                SourceMatch::Layer(layer) => Some(Some(layer.clone())),
                _ => None,
            })
            .chain(table.rules().filter_map(|(_, rule)| match &rule.destination {
                Destination::Waypoint(layer) => Some(Some(layer.clone())),
                _ => None,
            }))
            .chain([None])
            .collect();
        let applications = by_application(table)?;
        let mut met = BTreeSet::new();
        let mut ios = vec![];
        for object in objects {
            for (source, tenant) in self.sources(object) {
                for operation in Operation::ALL {
                    for via in &layers {
                        for span in [Some(Span::WHOLE), None] {
                            let (source, tenant) = (source.clone(), tenant.clone());
                            let (via, object) = (via.clone(), object.clone());
                            ios.push(Io {
                                source,
                                tenant,
                                via,
                                operation,
                                object,
                                span,
                                home: None,
                            });
                        }
                    }
                }
            }
            for io in ios.drain(..) {
                met.extend(table.route(&io)?.into_iter().filter_map(|segment| segment.rule));
                if applications.len() > 1 {
                    self.contradictions(switch, table, &applications, &io)?;
                }
            }
        }
        let shadowed = table.rules().filter(|(id, _)| !met.contains(id));
        for (_, rule) in shadowed {
            let (switch_name, text) = (switch.clone(), rule.to_string());
            let kind = FindingKind::Shadowed { switch: switch_name, rule: text };
            let shown = self.shadow(switch, table, rule, objects)?;
            self.add(kind, shown.clone().map(|(io, _)| io), shown.map(|(_, way)| way), None);
        }
        Ok(())
    }

    /// An IO that a shadowed rule matches, and the earlier rule that decides about it.
    fn shadow(
        &self,
        switch: &SwitchName,
        table: &RuleTable,
        rule: &Rule,
        objects: &[ObjectId],
    ) -> Result<Option<(Io, Way)>> {
        let Some(object) = objects.iter().find(|object| rule.header.object.matches(object)) else {
            return Ok(None);
        };
        let mut sources = self.sources(object).into_iter();
        let via = match &rule.header.source {
            SourceMatch::Layer(layer) => Some(layer.clone()),
            _ => None,
        };
        let Some(operation) = rule.header.operations.iter().next() else { return Ok(None) };
        let io = sources.find_map(|(source, tenant)| {
            let (via, object) = (via.clone(), object.clone());
            let io = Io {
                source,
                tenant,
                via,
                operation,
                object,
                span: Some(rule.header.span),
                home: None,
            };
            rule.header.matches(&io).then_some(io)
        });
        let Some(io) = io else { return Ok(None) };
        let mut segments = table.route(&io)?.into_iter();
        let taken = segments.next().and_then(|segment| Some((segment.rule?, segment.span)));
        let Some((id, span)) = taken else { return Ok(None) };
        let Some(deciding) = table.get(id) else { return Ok(None) };
        let reason = Reason::Rule { id, text: deciding.to_string() };
        let hop = Hop { switch: switch.clone(), via: io.via.clone(), reason };
        let home = Endpoint { object: io.object.clone(), target: None };
        let mut way = Way::new(span, home);
        way.hops.push(hop);
        Ok(Some((io, way)))
    }

    /// Compares the rules of each pair of applications that match an IO.
    fn contradictions(
        &mut self,
        switch: &SwitchName,
        table: &RuleTable,
        applications: &BTreeMap<ApplicationName, Alone>,
        io: &Io,
    ) -> Result<()> {
        let mut wishes: Vec<(Option<Span>, RuleId)> = vec![];
        for alone in applications.values() {
            for segment in alone.table.route(io)? {
                let at = segment.rule.and_then(|rule| usize::try_from(rule.0).ok());
                let id = at.and_then(|at| alone.ids.get(at).copied());
                wishes.extend(id.map(|id| (segment.span, id)));
            }
        }
        for (at, (span, id)) in wishes.iter().enumerate() {
            for (other_span, other_id) in &wishes[at + 1..] {
                let is_over = match (span, other_span) {
                    (Some(a), Some(b)) => a.overlaps(*b),
                    (None, None) => true,
                    _ => false,
                };
                let (first, second) = (id.min(other_id), id.max(other_id));
                let rules = table.get(*first).zip(table.get(*second));
                let Some((rule, other)) = rules.filter(|_| is_over) else { continue };
                if rule.application == other.application || rule.destination == other.destination {
                    continue;
                }
                let kind = FindingKind::Contradiction {
                    switch: switch.clone(),
                    first: rule.application.clone(),
                    rule: rule.to_string(),
                    second: other.application.clone(),
                    other: other.to_string(),
                };
                let both = span.zip(*other_span).and_then(|(a, b)| a.intersect(b));
                let io = Io { span: both, ..io.clone() };
                let reason = Reason::Rule { id: *first, text: rule.to_string() };
                let hop = Hop { switch: switch.clone(), via: io.via.clone(), reason };
                let mut way = Way::new(both, Endpoint { object: io.object.clone(), target: None });
                way.hops.push(hop);
                self.add(kind, Some(io), Some(way), None);
            }
        }
        Ok(())
    }
}

/// The rules of one application.
struct Alone {
    table: RuleTable,
    /// For each rule in `table`, its id in the table of the switch.
    ids: Vec<RuleId>,
}

fn by_application(table: &RuleTable) -> Result<BTreeMap<ApplicationName, Alone>> {
    let mut all: BTreeMap<ApplicationName, Alone> = BTreeMap::new();
    for (id, rule) in table.rules() {
        let empty = || Alone { table: RuleTable::default(), ids: vec![] };
        let alone = all.entry(rule.application.clone()).or_insert_with(empty);
        alone.table.insert(vec![rule.clone()])?;
        alone.ids.push(id);
    }
    Ok(all)
}
