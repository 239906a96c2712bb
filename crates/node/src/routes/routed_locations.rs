//! `RoutedLocations` computes where routed bytes are stored: which object keeps the bytes of another
//! object that a rule has sent elsewhere.
//!
//! Routed bytes lie in the pool [`ROUTED_POOL`], which clients can neither read, write nor list. If
//! nodes keep the objects, the object with routed bytes is on another node ([`NodeLocations`]). On
//! Ceph it is on another OSD, and the gateway reaches it as any object ([`RadosLocations`]).

use std::collections::BTreeMap;

use nacre::{ClusterFile, NodeEntry};
use nacre_object::{Error, NodeName, ObjectId, PoolName, Result, SnapshotName, TargetName};
use nacre_route::{Destination, ROUTED_POOL};

use super::node_locations::NodeLocations;
use super::rados_locations::RadosLocations;
use crate::osd_targets::OsdTargets;

/// The place of an object's bytes away from home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RoutedLocation {
    pub object: ObjectId,
    /// The node that keeps the object. On Ceph, it is the gateway itself.
    pub node: NodeName,
}

/// Computes which object keeps routed bytes, and by which node it is reached.
#[derive(Debug)]
pub struct RoutedLocations {
    kind: Kind,
    pool: PoolName,
}

#[derive(Debug)]
enum Kind {
    Nodes(NodeLocations),
    Rados(RadosLocations),
}

impl RoutedLocations {
    /// `RoutedLocations` for one node of a cluster whose nodes keep objects themselves.
    ///
    /// # Errors
    /// `Invalid` if the cluster's file allows no placement.
    pub fn of(file: &ClusterFile, entry: &NodeEntry) -> Result<Self> {
        let kind = Kind::Nodes(NodeLocations::of(file, entry)?);
        Ok(Self { kind, pool: PoolName::new(ROUTED_POOL)? })
    }

    /// `RoutedLocations` for a gateway to Ceph.
    ///
    /// # Errors
    /// `Invalid` if the gateway's name is malformed.
    pub(crate) fn in_rados(entry: &NodeEntry, osds: OsdTargets) -> Result<Self> {
        let pool = PoolName::new(ROUTED_POOL)?;
        let locations =
            RadosLocations::new(entry.target()?, entry.node_name()?, pool.clone(), osds);
        Ok(Self { kind: Kind::Rados(locations), pool })
    }

    /// The node's own target. On Ceph, it is the name of the gateway.
    pub fn own(&self) -> &TargetName {
        match &self.kind {
            Kind::Nodes(locations) => locations.own(),
            Kind::Rados(locations) => locations.own(),
        }
    }

    /// The locations on Ceph, if the objects are there.
    pub(super) fn rados(&self) -> Option<&RadosLocations> {
        match &self.kind {
            Kind::Nodes(_) => None,
            Kind::Rados(locations) => Some(locations),
        }
    }

    /// The nodes of all targets. On Ceph, only the gateway itself.
    pub(super) fn nodes(&self) -> &BTreeMap<TargetName, NodeName> {
        match &self.kind {
            Kind::Nodes(locations) => locations.nodes(),
            Kind::Rados(locations) => locations.nodes(),
        }
    }

    /// All targets by which rules may name switches and destinations.
    ///
    /// # Errors
    /// `Unavailable` if Ceph does not answer.
    pub(super) async fn targets(&self) -> Result<Vec<TargetName>> {
        match &self.kind {
            Kind::Nodes(locations) => Ok(locations.nodes().keys().cloned().collect()),
            Kind::Rados(locations) => locations.targets().await,
        }
    }

    /// The target that holds an object. On Ceph, the name of the gateway, whose switch decides
    /// about all objects.
    pub fn holder(&self, object: &ObjectId) -> &TargetName {
        match &self.kind {
            Kind::Nodes(locations) => locations.holder(object),
            Kind::Rados(locations) => locations.own(),
        }
    }

    /// The pool of routed bytes.
    pub(super) fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// The object in which the node keeps the record of its rules. On Ceph, all gateways keep it in
    /// the same object.
    pub(super) fn record(&self) -> Result<ObjectId> {
        match &self.kind {
            Kind::Nodes(locations) => locations.record(),
            Kind::Rados(locations) => locations.record(),
        }
    }

    /// Which object keeps the copy of the object `home`, which is on this node, at another target.
    ///
    /// # Errors
    /// `NotFound` if there is no such target; `Invalid` if the name would be too long;
    /// `Unavailable` if Ceph does not answer, or if the OSD serves nothing.
    pub(super) async fn copy(
        &self,
        home: &ObjectId,
        target: &TargetName,
    ) -> Result<RoutedLocation> {
        match &self.kind {
            Kind::Nodes(locations) => locations.copy(home, target),
            Kind::Rados(locations) => locations.copy(home, target).await,
        }
    }

    /// The place of a copy at a target, which is stored in a known object.
    ///
    /// # Errors
    /// `NotFound` if there is no such target.
    pub(super) fn copy_in(&self, object: ObjectId, target: &TargetName) -> Result<RoutedLocation> {
        let target = match &self.kind {
            Kind::Nodes(_) => target,
            Kind::Rados(locations) => locations.own(),
        };
        let node = self.nodes().get(target).ok_or_else(|| no_target(target))?;
        Ok(RoutedLocation { object, node: node.clone() })
    }

    /// Whether the object with a copy is certainly at another target now. On Ceph, OSDs come and go.
    pub(super) fn has_moved(&self, stored_in: &ObjectId, target: &TargetName) -> bool {
        let primary = self.rados().and_then(|locations| locations.known_primary(stored_in));
        primary.is_some_and(|primary| primary != *target)
    }

    /// On Ceph: the object and the target whose copy an object of the pool stores, if it stores one.
    pub(super) fn copied_in(&self, object: &ObjectId) -> Option<(ObjectId, TargetName)> {
        self.rados().and_then(|locations| locations.copied_in(object))
    }

    /// How the names of copies begin that this node keeps for objects of another target.
    ///
    /// # Errors
    /// `NotFound` if the node has no target; `Unsupported` on Ceph, where nodes keep nothing for one
    /// another.
    pub(super) fn copy_prefix(&self, home_target: &TargetName) -> Result<String> {
        match &self.kind {
            Kind::Nodes(locations) => locations.copy_prefix(home_target),
            Kind::Rados(_) => {
                Err(Error::unsupported("gateways to Ceph keep no copies for one another"))
            }
        }
    }

    /// The object in which this node notes what it keeps of another object for
    /// [snapshots](super::snapshots) of a prefix.
    ///
    /// # Errors
    /// `Invalid` if the name would be too long.
    pub(super) fn snapshot_notes(&self, object: &ObjectId) -> Result<ObjectId> {
        match &self.kind {
            Kind::Nodes(locations) => locations.absence_marker(object),
            Kind::Rados(locations) => locations.kept_notes(object),
        }
    }

    /// The object that keeps the state of another object under a name.
    ///
    /// # Errors
    /// `Unsupported` unless the objects are on Ceph: engines of nodes keep states themselves;
    /// `Invalid` if the name would be too long.
    pub(super) fn kept_copy(&self, object: &ObjectId, name: &SnapshotName) -> Result<ObjectId> {
        match &self.kind {
            Kind::Nodes(_) => Err(Error::unsupported("nodes keep no copies for snapshots")),
            Kind::Rados(locations) => locations.kept_copy(object, name),
        }
    }

    /// The locations in a cluster whose nodes keep the objects.
    ///
    /// # Errors
    /// `Unsupported` on Ceph.
    pub(super) fn of_nodes(&self) -> Result<&NodeLocations> {
        match &self.kind {
            Kind::Nodes(locations) => Ok(locations),
            Kind::Rados(_) => Err(Error::unsupported("gateways to Ceph make no fragments")),
        }
    }

    /// Whether an object stores a copy that this node reaches.
    pub(super) fn is_copy(&self, object: &ObjectId) -> bool {
        match &self.kind {
            Kind::Nodes(locations) => locations.is_copy(object),
            Kind::Rados(locations) => locations.copied_in(object).is_some(),
        }
    }

    /// The other targets with their nodes. Empty on Ceph.
    pub(super) fn others(&self) -> Vec<(TargetName, NodeName)> {
        match &self.kind {
            Kind::Nodes(locations) => locations.others(),
            Kind::Rados(_) => vec![],
        }
    }

    /// Chooses the object for a write of the object `home` if the destination is a target or a pool.
    /// Otherwise `None`.
    ///
    /// # Errors
    /// `NotFound` if there is no such target; `Invalid` if the name would be too long;
    /// `Unavailable` if Ceph does not answer.
    pub(super) async fn choose(
        &self,
        home: &ObjectId,
        to: &Destination,
    ) -> Result<Option<Destination>> {
        match &self.kind {
            Kind::Nodes(_) => Ok(None),
            Kind::Rados(locations) => locations.choose(home, to).await,
        }
    }

    /// Which object keeps the bytes of the object `home` at a destination that is not chosen by
    /// [`choose`](Self::choose) any more. `None` if the destination is the home itself.
    ///
    /// # Errors
    /// `NotFound` if there is no such target; `Invalid` if the name would be too long;
    /// `Unsupported`.
    pub(super) fn place(
        &self,
        home: &ObjectId,
        to: &Destination,
    ) -> Result<Option<RoutedLocation>> {
        match &self.kind {
            Kind::Nodes(locations) => locations.place(home, to),
            Kind::Rados(locations) => locations.place(to),
        }
    }

    /// The destination that sends bytes to an object of the pool, if one does.
    pub(super) fn destination(&self, object: &ObjectId) -> Option<Destination> {
        match &self.kind {
            Kind::Nodes(locations) => locations.destination(object),
            Kind::Rados(locations) => locations.destination(object),
        }
    }

    /// The other nodes that may keep bytes which were sent to a destination. On Ceph, the gateway
    /// itself finds all of them.
    pub(super) fn keepers(&self, to: &Destination) -> Vec<NodeName> {
        match &self.kind {
            Kind::Nodes(locations) => locations.keepers(to),
            Kind::Rados(locations) => locations.nodes().values().cloned().collect(),
        }
    }
}

pub(super) fn no_target(target: &TargetName) -> Error {
    Error::not_found(format!("there is no target {target}")).hint("list the targets: nacre status")
}

pub(super) fn no_destination(to: &Destination) -> Error {
    Error::unsupported(format!("no node sends IO to \"{to}\""))
        .hint("name a target, the pool nacre.routed or an object nacre.routed/named/NAME")
}
