//! The network that IO passes: switches, layers, targets and pools.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{ObjectId, PoolName, ProgramName, TargetName, TenantName};

use crate::model::{Destination, Io, LayerName, SourceMatch, SwitchName};

/// Where a switch is, which decides what IO passes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// At these sources: their IO passes it first.
    Source(SourceMatch),
    /// In front of this target: IO passes it that is sent to the target by name.
    Target(TargetName),
    /// In front of this pool: IO to objects of the pool passes it, wherever they lie.
    Pool(PoolName),
    /// Behind a layer that names this switch. No other IO passes it.
    Layer,
}

/// The network that rules are analysed on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The pools.
    pub pools: BTreeSet<PoolName>,
    /// The targets.
    pub targets: BTreeSet<TargetName>,
    /// The layers, each with the switch to which it forwards IO. `None` means the switch from which
    /// the layer got the IO.
    pub layers: BTreeMap<LayerName, Option<SwitchName>>,
    /// The layers that pass each write on before they answer it. So a read that bypasses such a
    /// layer misses no write.
    pub write_through: BTreeSet<LayerName>,
    /// The layers that re-encode bytes. A read must pass the same layers as the write of its bytes did.
    pub encoding: BTreeSet<LayerName>,
    /// The programs, each with the destinations that it declares.
    pub programs: BTreeMap<ProgramName, Vec<Destination>>,
    /// The switches. An IO enters at the first one that is at its source.
    pub switches: Vec<(SwitchName, Location)>,
    /// For some pools, the tenant to which all requests on their objects belong, whoever sends
    /// them.
    pub tenants: BTreeMap<PoolName, TenantName>,
    /// The tenants that are promised a latency, each with the targets for which its traffic was
    /// admitted.
    pub promises: BTreeMap<TenantName, BTreeSet<TargetName>>,
    /// The targets behind a network link of known speed. Promises count the IO between a client and
    /// the target that holds the object, and no IO between two targets.
    pub links: BTreeSet<TargetName>,
    /// Whether each switch keeps the copies of an object current to which its rules scatter reads,
    /// as nodes do ([`Copies`](crate::Copies)). Otherwise copies are taken to be independent.
    pub has_current_copies: bool,
}

impl Topology {
    /// Whether there is a switch of this name.
    pub fn has_switch(&self, name: &SwitchName) -> bool {
        self.switches.iter().any(|(other, _)| other == name)
    }

    /// The destinations at which an IO to `to` may end. A program may choose any destination that
    /// it declares.
    pub fn possible<'a>(&'a self, to: &'a Destination) -> &'a [Destination] {
        to.possible(|program| self.programs.get(program).map(Vec::as_slice))
    }

    /// The first switch that an IO passes.
    pub fn entry(&self, io: &Io) -> Option<&SwitchName> {
        let at_source = |(_, location): &&(SwitchName, Location)| matches!(location, Location::Source(source) if source.matches(io));
        self.switches.iter().find(at_source).map(|(name, _)| name)
    }

    /// The switch in front of an endpoint: the switch of the target if a rule names the target,
    /// otherwise the switch of the object's pool.
    pub fn before(&self, object: &ObjectId, target: Option<&TargetName>) -> Option<&SwitchName> {
        let is_it = |(_, location): &&(SwitchName, Location)| match (location, target) {
            (Location::Target(name), Some(target)) => name == target,
            (Location::Pool(pool), None) => *pool == object.pool,
            _ => false,
        };
        self.switches.iter().find(is_it).map(|(name, _)| name)
    }
}
