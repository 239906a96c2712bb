//! The roles that a node can have, by name. The crate `nacre-node` implements them.

use serde::{Deserialize, Serialize};

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

    /// The nodes of a new cluster that is to have `targets` storage targets.
    pub(super) fn new_nodes(self, targets: usize) -> NewNodes {
        match self {
            Self::Storage => NewNodes { prefix: "storage", count: targets },
            Self::Metadata => NewNodes { prefix: "meta", count: 1 },
        }
    }
}
