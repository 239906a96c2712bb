//! `NodeLocations`: where routed bytes are stored in a cluster whose nodes keep the objects.
//!
//! The destination of a rule decides the name of the object that keeps the bytes:
//!
//! | destination | object that keeps the bytes of `POOL/NAME` |
//! | --- | --- |
//! | `target TARGET` | `{TAG}POOL/NAME`; the tag is the smallest number whose name is placed on the target |
//! | `pool nacre.routed` | `spread/POOL/NAME`, on any target |
//! | `object nacre.routed/named/X` | `named/X` |
//!
//! Copies for reads lie in the same pool, as `{TAG}copy:HOME/POOL/NAME`. `HOME` is the target of the
//! copied object. `{TAG}fragment:SET/POOL/NAME` is a fragment of an [erasure-coded](super::erasure) object;
//! `SET` is a number of 16 hexadecimal digits. `{TAG}absent:POOL/NAME` notes at which [snapshots](super::snapshots) an object of the
//! same node was absent. No pool has a colon in its name, so no routed object has such a name.
//!
//! As for all objects, placement computes the target from the name.

use std::collections::BTreeMap;

use nacre::{ClusterFile, NodeEntry, RoleName};
use nacre_object::{NodeName, ObjectId, ObjectName, PoolName, Result, TargetName};
use nacre_placement::{Placement, Target};
use nacre_route::{Destination, FragmentPlace, NAMED_OBJECTS, ROUTED_POOL};

use super::routed_locations::{RoutedLocation, no_destination, no_target};

const SPREAD: &str = "spread/";
const COPY: &str = "copy:";
const ABSENT: &str = "absent:";
const FRAGMENT: &str = "fragment:";
/// How many tags are tried at most for a target. With 256 targets of equal weight, the probability
/// that none of these tags leads to a given target is 10^-28.
const MAX_TAGS: u32 = 16_384;

/// Computes which object, on which node, keeps routed bytes.
#[derive(Debug)]
pub(super) struct NodeLocations {
    placement: Placement,
    own: TargetName,
    nodes: BTreeMap<TargetName, NodeName>,
    tags: BTreeMap<TargetName, String>,
    pool: PoolName,
}

impl NodeLocations {
    /// For one node of a cluster whose nodes keep objects themselves.
    ///
    /// # Errors
    /// `Invalid` if the cluster's file allows no placement.
    pub(super) fn of(file: &ClusterFile, entry: &NodeEntry) -> Result<Self> {
        let (mut targets, mut nodes) = (vec![], BTreeMap::new());
        for node in file.with_role(RoleName::Storage) {
            let name = node.target()?;
            nodes.insert(name.clone(), node.node_name()?);
            targets.push(Target { name, weight: node.weight });
        }
        let placement = Placement::new(targets)?;
        let pool = PoolName::new(ROUTED_POOL)?;
        let mut tags = BTreeMap::new();
        for tag in 0..MAX_TAGS {
            let target = placement.locate(&pool, &tag.to_string()).clone();
            tags.entry(target).or_insert_with(|| format!("{{{tag}}}"));
            if tags.len() == nodes.len() {
                break;
            }
        }
        Ok(Self { placement, own: entry.target()?, nodes, tags, pool })
    }

    /// The node's own target.
    pub(super) fn own(&self) -> &TargetName {
        &self.own
    }

    /// The nodes of all targets.
    pub(super) fn nodes(&self) -> &BTreeMap<TargetName, NodeName> {
        &self.nodes
    }

    /// The target that holds an object.
    pub(super) fn holder(&self, object: &ObjectId) -> &TargetName {
        self.placement.locate_object(&object.pool, &object.name)
    }

    /// The object in which the node keeps the record of its rules.
    pub(super) fn record(&self) -> Result<ObjectId> {
        self.tagged(&self.own, "record")
    }

    fn tagged(&self, target: &TargetName, rest: &str) -> Result<ObjectId> {
        let tag = self.tags.get(target).ok_or_else(|| no_target(target))?;
        Ok(ObjectId::new(self.pool.clone(), ObjectName::new(format!("{tag}{rest}"))?))
    }

    /// The object in which this node notes at which snapshots an object of its own was absent.
    ///
    /// # Errors
    /// `Invalid` if the name would be too long.
    pub(super) fn absence_marker(&self, object: &ObjectId) -> Result<ObjectId> {
        self.tagged(&self.own, &format!("{ABSENT}{object}"))
    }

    /// Which object keeps the copy of the object `home`, which is on this node, at another target.
    ///
    /// # Errors
    /// `NotFound` if there is no such target; `Invalid` if the name would be too long.
    pub(super) fn copy(&self, home: &ObjectId, target: &TargetName) -> Result<RoutedLocation> {
        let object = self.tagged(target, &format!("{COPY}{}/{home}", self.own))?;
        let node = self.nodes.get(target).ok_or_else(|| no_target(target))?;
        Ok(RoutedLocation { object, node: node.clone() })
    }

    /// How the names of copies begin that this node keeps for objects of another target.
    pub(super) fn copy_prefix(&self, home_target: &TargetName) -> Result<String> {
        let tag = self.tags.get(&self.own).ok_or_else(|| no_target(&self.own))?;
        Ok(format!("{tag}{COPY}{home_target}/"))
    }

    /// Whether an object stores a copy at this node.
    pub(super) fn is_copy(&self, object: &ObjectId) -> bool {
        let rest = self.tags.get(&self.own).and_then(|tag| object.name.as_str().strip_prefix(tag));
        object.pool == self.pool && rest.is_some_and(|rest| rest.starts_with(COPY))
    }

    /// Where a new fragment for a target goes.
    ///
    /// # Errors
    /// `NotFound` if there is no such target.
    pub(super) fn fragment_place(&self, target: &TargetName) -> Result<FragmentPlace> {
        let tag = self.tags.get(target).ok_or_else(|| no_target(target))?;
        let tag = tag.trim_matches(['{', '}']).to_owned();
        Ok(FragmentPlace { target: target.clone(), tag })
    }

    /// Which object keeps a fragment of the object `home`. Like every object, it is where its name is
    /// placed.
    ///
    /// # Errors
    /// `Invalid` if the name would be too long.
    pub(super) fn fragment(
        &self,
        home: &ObjectId,
        set: u64,
        place: &FragmentPlace,
    ) -> Result<RoutedLocation> {
        let name = format!("{{{}}}{FRAGMENT}{set:016x}/{home}", place.tag);
        let object = ObjectId::new(self.pool.clone(), ObjectName::new(name)?);
        let target = self.holder(&object);
        let node = self.nodes.get(target).ok_or_else(|| no_target(target))?.clone();
        Ok(RoutedLocation { object, node })
    }

    /// The set and the object to which a fragment belongs, if an object stores one.
    pub(super) fn fragment_in(&self, object: &ObjectId) -> Option<(u64, ObjectId)> {
        let (_, rest) = object.name.as_str().strip_prefix('{')?.split_once('}')?;
        let (set, home) = rest.strip_prefix(FRAGMENT)?.split_once('/')?;
        let set = u64::from_str_radix(set, 16).ok()?;
        Some((set, home.parse().ok()?)).filter(|_| object.pool == self.pool)
    }

    /// The other targets with their nodes.
    pub(super) fn others(&self) -> Vec<(TargetName, NodeName)> {
        let others = self.nodes.iter().filter(|(target, _)| **target != self.own);
        others.map(|(target, node)| (target.clone(), node.clone())).collect()
    }

    /// Which object keeps the bytes of the object `home` at a destination. `None` if the
    /// destination is the node of `home` itself.
    ///
    /// # Errors
    /// `NotFound` if there is no such target; `Invalid` if the name would be too long;
    /// `Unsupported`.
    pub(super) fn place(
        &self,
        home: &ObjectId,
        to: &Destination,
    ) -> Result<Option<RoutedLocation>> {
        let object = match to {
            // A scattered read that did not go to a copy goes home. So does a read that bypasses a
            // layer.
            Destination::Home
            | Destination::Scatter(_)
            | Destination::Bypass(_)
            | Destination::Versions(_)
            | Destination::Snapshots(_)
            | Destination::Erasure(_) => return Ok(None),
            Destination::Target(target) => self.tagged(target, &home.to_string())?,
            Destination::Pool(_) => {
                ObjectId::new(self.pool.clone(), ObjectName::new(format!("{SPREAD}{home}"))?)
            }
            Destination::Object(object) => object.clone(),
            other => return Err(no_destination(other)),
        };
        let target = self.holder(&object);
        if target == &self.own {
            return Ok(None);
        }
        let node = self.nodes.get(target).ok_or_else(|| no_target(target))?;
        Ok(Some(RoutedLocation { object, node: node.clone() }))
    }

    /// The destination that sends bytes to an object of the pool, if one does.
    pub(super) fn destination(&self, object: &ObjectId) -> Option<Destination> {
        let name = object.name.as_str();
        if name.starts_with(SPREAD) {
            return Some(Destination::Pool(self.pool.clone()));
        }
        if name.starts_with(NAMED_OBJECTS) {
            return Some(Destination::Object(object.clone()));
        }
        let is_tagged = |tag: &&String| {
            let rest = name.strip_prefix(tag.as_str());
            let is_other =
                |rest: &str| [COPY, ABSENT, FRAGMENT].iter().any(|kind| rest.starts_with(kind));
            rest.is_some_and(|rest| rest.contains('/') && !is_other(rest))
        };
        let (target, _) = self.tags.iter().find(|(_, tag)| is_tagged(tag))?;
        Some(Destination::Target(target.clone()))
    }

    /// The other nodes that may keep bytes which were sent to a destination.
    pub(super) fn keepers(&self, to: &Destination) -> Vec<NodeName> {
        let others = self.nodes.iter().filter(|(target, _)| **target != self.own);
        let is_one = |target: &TargetName| match to {
            Destination::Target(name) => name == target,
            Destination::Object(object) => self.holder(object) == target,
            Destination::Pool(_) => true,
            _ => false,
        };
        others.filter(|(target, _)| is_one(target)).map(|(_, node)| node.clone()).collect()
    }
}
