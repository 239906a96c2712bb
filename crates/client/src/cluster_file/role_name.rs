//! The roles that a node can have, by name. The crate `nacre-node` implements them.

use serde::{Deserialize, Serialize};

use super::Layout;

/// One job of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    /// Keeps objects: a storage target.
    Storage,
    /// Hosts sequencers.
    Metadata,
}

/// The nodes that a new cluster has for one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewNodes {
    /// What they are called, before their numbers.
    pub prefix: &'static str,
    pub count: usize,
}

impl RoleName {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Storage, Self::Metadata];

    /// The role as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Metadata => "metadata",
        }
    }

    /// The nodes that a new cluster has for this role.
    pub(super) fn new_nodes(self, layout: &Layout) -> NewNodes {
        match self {
            Self::Storage => NewNodes { prefix: "storage", count: layout.storage },
            Self::Metadata => NewNodes { prefix: "meta", count: layout.metadata },
        }
    }
}
