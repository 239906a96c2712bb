//! What there is on the way of IO: switches, layers, targets and pools.

use std::collections::{BTreeMap, BTreeSet};

use nacre_object::{ObjectId, PoolName, ProgramName, TargetName};

use crate::model::{Destination, Io, LayerName, SourceMatch, SwitchName};

/// Which IO comes by a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// What these sources ask, first of all.
    Source(SourceMatch),
    /// What is sent to this target by name.
    Target(TargetName),
    /// What is sent to objects of this pool, wherever they lie.
    Pool(PoolName),
    /// What comes out of a layer that names this switch, and nothing else.
    Layer,
}

/// The network that rules are analysed on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The pools that there are.
    pub pools: BTreeSet<PoolName>,
    /// The targets that there are.
    pub targets: BTreeSet<TargetName>,
    /// The existing layers, each with the switch that receives the IO that the layer sends out.
    /// `None` means the switch that sent the IO to the layer.
    pub layers: BTreeMap<LayerName, Option<SwitchName>>,
    /// The programs that there are, each with the destinations that it declares.
    pub programs: BTreeMap<ProgramName, Vec<Destination>>,
    /// The switches, in the order in which a source is looked for.
    pub switches: Vec<(SwitchName, Location)>,
}

impl Topology {
    /// Whether there is a switch of this name.
    pub fn has_switch(&self, name: &SwitchName) -> bool {
        self.switches.iter().any(|(other, _)| other == name)
    }

    /// Where an IO may go that is sent to a destination.
    pub fn possible<'a>(&'a self, to: &'a Destination) -> &'a [Destination] {
        to.possible(|program| self.programs.get(program).map(Vec::as_slice))
    }

    /// The first switch that an IO meets.
    pub fn entry(&self, io: &Io) -> Option<&SwitchName> {
        let at_source = |(_, location): &&(SwitchName, Location)| matches!(location, Location::Source(source) if source.matches(io));
        self.switches.iter().find(at_source).map(|(name, _)| name)
    }

    /// The switch in front of an endpoint. For an IO that is sent to a target this is the target's
    /// switch, and otherwise the switch of the pool.
    pub fn before(&self, object: &ObjectId, target: Option<&TargetName>) -> Option<&SwitchName> {
        let is_it = |(_, location): &&(SwitchName, Location)| match (location, target) {
            (Location::Target(name), Some(target)) => name == target,
            (Location::Pool(pool), None) => *pool == object.pool,
            _ => false,
        };
        self.switches.iter().find(is_it).map(|(name, _)| name)
    }
}
