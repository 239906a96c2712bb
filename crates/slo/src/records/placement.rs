//! Where the pools of a tenant were moved, as the map `slo` stores it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Promise;

/// A tenant whose pools `nacre slo advise --apply` has moved to one target, and all that is needed
/// to take it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The target.
    pub target: String,
    /// Whether all the tenant's requests go to the target. Before that, the move is under way, or
    /// it was interrupted.
    pub is_complete: bool,
    /// When the move began.
    pub began_at_micros: u64,
    /// The tenant's promise before the move; `None` if it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_promise: Option<Promise>,
    /// The RADOS pools that were moved.
    pub pools: Vec<MovedPool>,
}

/// A RADOS pool that was moved, and what placed it before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedPool {
    /// Its name.
    pub rados_pool: String,
    /// Its former `pg_autoscale_mode`, if the move has changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscale_mode: Option<String>,
    /// The former overrides of CRUSH, for each placement group that had some.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, FormerOverrides>,
}

/// The overrides of CRUSH that a placement group had.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormerOverrides {
    /// `pg-upmap`: the OSDs that keep it.
    pub osds: Vec<i32>,
    /// `pg-upmap-items`: OSDs, and those that replace them.
    pub replaced: Vec<(i32, i32)>,
}
