//! Finds the objects to which damaged nodes (streams, maps or attributes) belong. Only heads of
//! objects name nodes, so this reads all heads. It runs only when a step of a scrub has found
//! damage.

use std::collections::{HashMap, HashSet};

use nacre_object::{ObjectId, SnapshotName};

use super::stretch::{Entries, Stretch};
use crate::entry::head::Head;
use crate::entry::key::{ALL_HEADS, Kind, NodeId};
use crate::entry::value::Value;
use crate::tables::TableSnapshot;

/// An object, or a snapshot of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub object: ObjectId,
    pub snapshot: Option<SnapshotName>,
}

/// What a damaged entry belongs to, as far as its key says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Owner(Owner),
    Node(NodeId),
    /// The store itself.
    Nobody,
}

impl Whose {
    pub fn of(kind: &Kind<'_>) -> Self {
        let owner = |object: &ObjectId, snapshot: Option<&SnapshotName>| {
            Self::Owner(Owner { object: object.clone(), snapshot: snapshot.cloned() })
        };
        match kind {
            Kind::Head(object) => owner(object, None),
            Kind::Snapshot(object, snapshot) => owner(object, Some(snapshot)),
            Kind::Extent { node, .. }
            | Kind::Slot { node, .. }
            | Kind::MapEntry { node, .. }
            | Kind::MapHeader { node }
            | Kind::Attribute { node, .. } => Self::Node(*node),
            Kind::Reference { owner, .. } => {
                Kind::of(owner).as_ref().map_or(Self::Nobody, Self::of)
            }
            Kind::Live { .. } | Kind::Garbage | Kind::Applied => Self::Nobody,
        }
    }
}

/// The owners of damaged nodes.
#[derive(Debug, Default)]
pub(super) struct Owners {
    pub of_nodes: HashMap<NodeId, Owner>,
    /// For each unreadable stretch, the objects with entries in it.
    pub of_stretches: Vec<Vec<Owner>>,
}

impl Owners {
    /// Searches all heads that can be read.
    pub fn find(tables: &TableSnapshot, nodes: &HashSet<NodeId>, stretches: &[Stretch]) -> Self {
        let of_stretches = vec![Vec::new(); stretches.len()];
        let mut found = Self { of_stretches, ..Self::default() };
        if nodes.is_empty() && stretches.is_empty() {
            return found;
        }
        for prefix in ALL_HEADS {
            for (key, stored) in Entries::with_prefix(tables, &prefix).flatten() {
                let Some(Whose::Owner(owner)) = Kind::of(&key).as_ref().map(Whose::of) else {
                    continue;
                };
                let head = Value::decode(&key, &stored).and_then(Value::into_inline);
                let Ok(head) = head.and_then(|head| Head::decode(&head)) else { continue };
                found.add(tables, owner, &head, nodes, stretches);
            }
        }
        found
    }

    fn add(
        &mut self,
        tables: &TableSnapshot,
        owner: Owner,
        head: &Head,
        nodes: &HashSet<NodeId>,
        stretches: &[Stretch],
    ) {
        let content = &head.content;
        let own = || [content.stream, content.map, content.attributes].into_iter().flatten();
        for (stretch, owners) in stretches.iter().zip(&mut self.of_stretches) {
            if own().any(|node| stretch.hits(tables, node)) {
                owners.push(owner.clone());
            }
        }
        for node in own().filter(|node| nodes.contains(node)) {
            self.of_nodes.insert(node, owner.clone());
        }
    }
}
