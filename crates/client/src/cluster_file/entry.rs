//! What `cluster.json` says of a node.

use std::path::PathBuf;

use nacre_object::{NodeName, Result, TargetName};
use serde::{Deserialize, Serialize};

use super::RoleName;
use crate::targets::UniqueId;

/// One node of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its name, also that of the target it is.
    pub name: String,
    /// The node's name among the nodes of all folders that use the same system, such as Ceph.
    /// `None` if the cluster keeps its own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_as: Option<String>,
    /// The id of the node's storage target. The target's folder has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<UniqueId>,
    /// What it does.
    pub roles: Vec<RoleName>,
    /// For storage: its share of the objects, relative to the others'.
    #[serde(default = "one")]
    pub weight: f64,
    /// Its Unix socket, relative to the cluster's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Where it listens with mutual TLS: `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

fn one() -> f64 {
    1.0
}

impl NodeEntry {
    /// Whether it has the role.
    pub fn has(&self, role: RoleName) -> bool {
        self.roles.contains(&role)
    }

    /// The name of the node in the cluster's maps, for example as the sequencer of a log.
    ///
    /// # Errors
    /// `Invalid` if an edited file has a bad name.
    pub fn node_name(&self) -> Result<NodeName> {
        NodeName::new(self.known_name())
    }

    pub(super) fn known_name(&self) -> &str {
        self.known_as.as_ref().unwrap_or(&self.name)
    }

    /// The name of the node's storage target.
    ///
    /// # Errors
    /// `Invalid` if the file was edited to hold something else.
    pub fn target(&self) -> Result<TargetName> {
        self.name.parse()
    }
}
