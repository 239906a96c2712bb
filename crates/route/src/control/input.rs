//! What a control program gets in one run, and what a run results in.

use std::collections::BTreeMap;

use nacre_object::{TargetName, TenantName};
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::model::{Io, ObjectMatch, Span};

/// What a control program gets. The fields have the names by which programs know them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlInput {
    /// Seconds since 1970, by the controller's clock.
    pub now: f64,
    /// The time over which the rates are counted, in seconds; 0 at the first run of a controller.
    pub seconds: f64,
    /// The settings, defaults included.
    pub settings: Settings,
    /// What the program left in `cluster.state` in its last run; an empty object before.
    pub state: serde_json::Value,
    /// The targets, sorted by name.
    pub targets: Vec<TargetLoad>,
    /// The objects that clients use most, the busiest first.
    pub objects: Vec<ObjectLoad>,
    /// The caches of the nodes; `None` if nothing is cached, or if the program has not asked for it.
    pub cache: Option<CacheLoad>,
    /// The present rules of the application.
    pub rules: Vec<SwitchRule>,
    /// The IO that a rule of the application has sent to the controller, in the order of arrival.
    pub waiting: Vec<WaitingIo>,
}

/// An IO that waits for a rule, because a rule of the application sends it to the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingIo {
    /// `POOL/NAME`, as rules write it.
    pub object: String,
    /// The target that holds it, whose switch has asked.
    pub target: String,
    /// `read`, `write`, `create` or `delete`.
    pub operation: String,
    /// The entity that has sent the IO.
    pub source: String,
    /// The tenant of the IO.
    pub tenant: String,
    /// The first byte; `None` if the IO concerns the whole object.
    pub offset: Option<u64>,
    /// How many bytes; `None` if the IO concerns the whole object.
    pub length: Option<u64>,
}

impl WaitingIo {
    /// What a program sees of an IO at the switch of `target`.
    pub fn of(io: &Io, target: &TargetName) -> Self {
        let span = io.span.filter(|span| *span != Span::WHOLE);
        Self {
            object: ObjectMatch::Exact(io.object.clone()).to_string(),
            target: target.to_string(),
            operation: io.operation.word().to_owned(),
            source: io.source.to_string(),
            tenant: io.tenant.to_string(),
            offset: span.map(Span::start),
            length: span.map(Span::length),
        }
    }
}

/// The caches of all nodes. Each node has a cache of the same size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheLoad {
    /// The size of each node's cache in bytes.
    pub bytes: u64,
    /// The tenants that read cached objects, sorted by name.
    pub tenants: Vec<CacheTenant>,
}

/// A tenant that reads cached objects.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheTenant {
    /// The name.
    pub name: String,
    /// Its reads a second at all nodes.
    pub reads: f64,
    /// Its present share of each node's cache in bytes; `None` if it has none of its own.
    pub share: Option<u64>,
    /// Pairs of a cache size in bytes and the part of the reads that a cache of this size misses.
    pub curve: Vec<(u64, f64)>,
}

/// The load of a target. Rates are requests a second since the last run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TargetLoad {
    /// The name.
    pub name: String,
    /// Whether its node has answered. If not, the rates are 0.
    pub answers: bool,
    /// All requests.
    pub requests: f64,
    /// Requests that only read.
    pub reads: f64,
    /// All other requests.
    pub writes: f64,
    /// The bytes of its objects that are on other targets.
    pub routed_bytes: u64,
    /// The tenants whose requests it gets, the busiest first.
    pub tenants: Vec<TenantLoad>,
}

/// The requests of a tenant at one target, a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantLoad {
    /// The name.
    pub name: String,
    /// Requests that only read.
    pub reads: f64,
    /// All other requests.
    pub writes: f64,
}

/// The requests about an object, a second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectLoad {
    /// `POOL/NAME`, as rules write it.
    pub object: String,
    /// The target that holds it.
    pub target: String,
    /// Requests that only read.
    pub reads: f64,
    /// All other requests.
    pub writes: f64,
    /// For how many seconds the switch has seen nothing but reads.
    pub read_only_seconds: f64,
}

/// A rule at a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SwitchRule {
    /// The target whose switch has the rule, or `every`.
    pub switch: String,
    /// The rule, as a line.
    pub rule: String,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlOutput {
    /// The rules that the application has from now on, in the order of their insertion.
    pub rules: Vec<SwitchRule>,
    /// The shares of each node's cache in bytes, by tenant; `None` if they stay as they are.
    pub shares: Option<BTreeMap<TenantName, u64>>,
    /// What the program keeps until its next run.
    pub state: serde_json::Value,
    /// What it tells operators: events for the cluster log.
    pub told: Vec<String>,
}
