//! `RankLoad`: the measurements of a rank that its heartbeat carries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The measurements of a rank that its heartbeat carries. A field that is missing in JSON has its
/// default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankLoad {
    /// The node that serves the rank.
    pub node: String,
    /// The load of the units of which the rank is the authority.
    pub auth: f64,
    /// The load of all units on the rank, including units whose authority is another rank.
    pub all: f64,
    /// CPU use in percent.
    pub cpu: f64,
    /// Memory use in percent.
    pub mem: f64,
    /// Requests that wait.
    pub queue: f64,
    /// Requests a second.
    pub requests: f64,
    /// The labels that the operator gave the node, such as `sequencers = "yes"`.
    pub labels: BTreeMap<String, String>,
    /// How much load the node can serve, compared with a node of capacity 1.
    pub capacity: f64,
}

impl Default for RankLoad {
    fn default() -> Self {
        Self {
            node: String::new(),
            auth: 0.0,
            all: 0.0,
            cpu: 0.0,
            mem: 0.0,
            queue: 0.0,
            requests: 0.0,
            labels: BTreeMap::new(),
            capacity: 1.0,
        }
    }
}

impl RankLoad {
    /// The measured numbers, for a check of all of them.
    pub(crate) fn numbers(&self) -> [f64; 7] {
        [self.auth, self.all, self.cpu, self.mem, self.queue, self.requests, self.capacity]
    }
}
