//! Follows one IO through the switches, and says which rule sent it where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nacre_object::{ObjectId, Result, TargetName};

use crate::file::{Routes, Topology};
use crate::limits::MAX_HOPS;
use crate::model::{
    Destination, Follow, Io, LayerName, Operation, Options, RuleId, Span, SwitchName, text,
};
use crate::rules::RuleTable;

/// The switches of a network, with their rules.
#[derive(Debug)]
pub struct Network<'a> {
    /// The pools, targets, layers and switches.
    pub topology: &'a Topology,
    /// The rules of each switch.
    pub tables: BTreeMap<SwitchName, RuleTable>,
}

impl<'a> Network<'a> {
    /// The network of a rule file.
    ///
    /// # Errors
    /// As [`RuleTable::insert`].
    pub fn new(routes: &'a Routes) -> Result<Self> {
        Ok(Self { topology: &routes.topology, tables: routes.tables()? })
    }
}

/// The object and the target that serve an IO.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The object.
    pub object: ObjectId,
    /// The target; `None` for the target where the object lies.
    pub target: Option<TargetName>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", text::escape(&self.object.to_string()))?;
        self.target.iter().try_for_each(|target| write!(f, " at {target}"))
    }
}

/// Why a switch sends an IO to its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// This rule decides.
    Rule {
        /// The id of the rule in the switch.
        id: RuleId,
        /// The rule.
        text: String,
    },
    /// No rule matches the IO, so it continues to where it was going.
    NoRule,
}

/// A switch on the path of an IO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The switch.
    pub switch: SwitchName,
    /// The layer that the IO came out of.
    pub via: Option<LayerName>,
    /// Why the switch sent the IO to its next hop.
    pub reason: Reason,
}

/// How the path of an IO ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// At an endpoint.
    Served(Endpoint),
    /// At `take` of several copies.
    Scattered {
        /// How many copies the IO uses.
        take: usize,
        /// The copies.
        among: Vec<Endpoint>,
        /// The endpoint whose bytes all of them have at any time, if the switches see to that.
        current_with: Option<Endpoint>,
    },
    /// At the controller, which decides.
    Controller,
    /// In a loop: at a switch that it has passed before.
    Loop,
    /// Nowhere: there is no such pool, target or layer.
    Missing(String),
}

/// The path of some bytes of an IO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The bytes; `None` if the IO touches none.
    pub span: Option<Span>,
    /// The switches, in order.
    pub hops: Vec<Hop>,
    /// The layers that the IO bypasses. A read that bypasses a write-through layer sees the same as
    /// one that passes it, so such a layer is left out.
    pub bypassed: BTreeSet<LayerName>,
    /// The layers on the path that re-encode bytes, in order.
    pub encoded: Vec<LayerName>,
    /// Whether a rule on the path makes reads follow this write, and at which switches.
    pub follow: Follow,
    /// The switch of that rule.
    pub follow_at: Option<SwitchName>,
    /// The combined options of the rules on the path.
    pub options: Options,
    /// How the path ends.
    pub end: End,
}

impl Way {
    /// A path without switches, straight to an endpoint.
    pub(super) fn new(span: Option<Span>, endpoint: Endpoint) -> Self {
        Self {
            span,
            hops: vec![],
            bypassed: BTreeSet::new(),
            encoded: vec![],
            follow: Follow::No,
            follow_at: None,
            options: Options::default(),
            end: End::Served(endpoint),
        }
    }
}

/// An IO between two switches.
#[derive(Clone)]
struct State {
    io: Io,
    endpoint: Endpoint,
    way: Way,
    visited: Vec<(SwitchName, Option<LayerName>, Endpoint)>,
}

/// Follows every byte of an IO from its source to its end.
///
/// # Errors
/// As [`RuleTable::route`].
pub fn trace(network: &Network<'_>, io: &Io) -> Result<Vec<Way>> {
    let endpoint = Endpoint { object: io.object.clone(), target: None };
    let way = Way::new(io.span, endpoint.clone());
    let state = State { io: io.clone(), endpoint, way, visited: vec![] };
    let mut ways = vec![];
    match network.topology.entry(io) {
        Some(switch) => pass(network, state, switch, &mut ways)?,
        None => arrive(network, state, None, &mut ways)?,
    }
    ways.sort_by_key(|way| way.span);
    Ok(ways)
}

fn pass(
    network: &Network<'_>,
    mut state: State,
    switch: &SwitchName,
    ways: &mut Vec<Way>,
) -> Result<()> {
    let here = (switch.clone(), state.io.via.clone(), state.endpoint.clone());
    if state.visited.contains(&here) || state.visited.len() >= MAX_HOPS {
        state.way.end = End::Loop;
        ways.push(state.way);
        return Ok(());
    }
    state.visited.push(here);
    let empty = RuleTable::default();
    let table = network.tables.get(switch).unwrap_or(&empty);
    for segment in table.route(&state.io)? {
        let mut part = state.clone();
        part.io.span = segment.span;
        part.way.span = segment.span;
        let rule = segment.rule.and_then(|id| Some((id, table.get(id)?)));
        let reason = match rule {
            Some((id, rule)) => Reason::Rule { id, text: rule.to_string() },
            None => Reason::NoRule,
        };
        part.way.hops.push(Hop { switch: switch.clone(), via: part.io.via.clone(), reason });
        match rule {
            None => arrive(network, part, Some(switch), ways)?,
            Some((_, rule)) => {
                part.note(switch, rule.options);
                go(network, part, switch, &rule.destination, ways)?;
            }
        }
    }
    Ok(())
}

impl State {
    fn note(&mut self, switch: &SwitchName, options: Options) {
        if options.follow != Follow::No {
            self.way.follow = options.follow;
            self.way.follow_at = Some(switch.clone());
        }
        self.way.options.is_write_through |= options.is_write_through;
        self.way.options.is_uncached |= options.is_uncached;
    }

    fn home(&self) -> Endpoint {
        Endpoint { object: self.io.object.clone(), target: None }
    }

    fn ends(mut self, end: End, ways: &mut Vec<Way>) {
        self.way.end = end;
        ways.push(self.way);
    }
}

/// Sends an IO to the destination of a rule.
fn go(
    network: &Network<'_>,
    mut state: State,
    switch: &SwitchName,
    destination: &Destination,
    ways: &mut Vec<Way>,
) -> Result<()> {
    match destination {
        Destination::Home => state.endpoint = state.home(),
        Destination::Object(object) => {
            state.endpoint = Endpoint { object: object.clone(), target: None };
        }
        Destination::Pool(pool) => {
            let object = ObjectId::new(pool.clone(), state.io.object.name.clone());
            state.endpoint = Endpoint { object, target: None };
        }
        Destination::Target(target) => {
            let object = state.io.object.clone();
            state.endpoint = Endpoint { object, target: Some(target.clone()) };
        }
        Destination::Bypass(layer) => {
            if !network.topology.layers.contains_key(layer) {
                state.ends(End::Missing(format!("layer {layer}")), ways);
                return Ok(());
            }
            let is_read = state.io.operation == Operation::Read;
            if !(is_read && network.topology.write_through.contains(layer)) {
                state.way.bypassed.insert(layer.clone());
            }
        }
        Destination::Versions(_) | Destination::Snapshots(_) => {}
        Destination::Waypoint(layer) => {
            let Some(next) = network.topology.layers.get(layer) else {
                state.ends(End::Missing(format!("layer {layer}")), ways);
                return Ok(());
            };
            state.io.via = Some(layer.clone());
            if network.topology.encoding.contains(layer) {
                state.way.encoded.push(layer.clone());
            }
            return pass(network, state, next.as_ref().unwrap_or(switch), ways);
        }
        Destination::Scatter(scatter) => {
            let current_with = network.topology.has_current_copies.then(|| state.home());
            scattered(network, state, (scatter.count(), &scatter.among), current_with, ways);
            return Ok(());
        }
        // Changes bring the bytes home first. Fragments never lag behind.
        Destination::Erasure(erasure) if state.io.operation == Operation::Read => {
            let current_with = Some(state.home());
            scattered(network, state, (erasure.needed, &erasure.among), current_with, ways);
            return Ok(());
        }
        Destination::Erasure(erasure) => {
            if let Some(missing) = missing_target(network, &erasure.among) {
                state.ends(missing, ways);
                return Ok(());
            }
        }
        Destination::Program(program) => {
            let Some(declared) = network.topology.programs.get(program) else {
                state.ends(End::Missing(format!("program {program}")), ways);
                return Ok(());
            };
            // The program may choose any of these destinations. So each of them gives one path for
            // the bytes.
            return declared.iter().try_for_each(|to| go(network, state.clone(), switch, to, ways));
        }
        Destination::Controller(_) => {
            state.ends(End::Controller, ways);
            return Ok(());
        }
    }
    arrive(network, state, Some(switch), ways)
}

/// The end of a path to targets of which one does not exist.
fn missing_target(network: &Network<'_>, among: &[TargetName]) -> Option<End> {
    let is_unknown = |target: &&TargetName| !network.topology.targets.contains(*target);
    among.iter().find(is_unknown).map(|target| End::Missing(format!("target {target}")))
}

/// Ends the path at `take` of the targets. There is no switch in front of them.
fn scattered(
    network: &Network<'_>,
    state: State,
    (take, among): (usize, &[TargetName]),
    current_with: Option<Endpoint>,
    ways: &mut Vec<Way>,
) {
    if let Some(missing) = missing_target(network, among) {
        return state.ends(missing, ways);
    }
    let object = &state.io.object;
    let copy =
        |target: &TargetName| Endpoint { object: object.clone(), target: Some(target.clone()) };
    let among = among.iter().map(copy).collect();
    state.ends(End::Scattered { take, among, current_with }, ways);
}

/// Sends an IO to its endpoint. The IO first passes the switch in front of the endpoint, unless it
/// comes from that switch.
fn arrive(
    network: &Network<'_>,
    state: State,
    from: Option<&SwitchName>,
    ways: &mut Vec<Way>,
) -> Result<()> {
    let Endpoint { object, target } = &state.endpoint;
    let topology = network.topology;
    let missing = match target {
        Some(target) if !topology.targets.contains(target) => Some(format!("target {target}")),
        None if !topology.pools.contains(&object.pool) => Some(format!("pool {}", object.pool)),
        _ => None,
    };
    if let Some(missing) = missing {
        state.ends(End::Missing(missing), ways);
        return Ok(());
    }
    match topology.before(object, target.as_ref()).filter(|next| Some(*next) != from) {
        Some(next) => pass(network, state, &next.clone(), ways),
        None => {
            let end = End::Served(state.endpoint.clone());
            state.ends(end, ways);
            Ok(())
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.span {
            Some(span) => write!(f, "{span}:")?,
            None => write!(f, "no bytes:")?,
        }
        for Hop { switch, via, reason } in &self.hops {
            write!(f, " {switch}")?;
            via.iter().try_for_each(|layer| write!(f, " (out of {layer})"))?;
            match reason {
                Reason::Rule { text, .. } => write!(f, " [{text}]")?,
                Reason::NoRule => write!(f, " [no rule]")?,
            }
            write!(f, " ->")?;
        }
        match &self.end {
            End::Served(endpoint) => write!(f, " {endpoint}"),
            End::Scattered { take, among, .. } => {
                let all: Vec<_> = among.iter().map(Endpoint::to_string).collect();
                write!(f, " {take} of {}", all.join(", "))
            }
            End::Controller => f.write_str(" the controller"),
            End::Loop => f.write_str(" and so on in a loop"),
            End::Missing(what) => write!(f, " nowhere: there is no {what}"),
        }
    }
}
