//! What a node says of the copies of its objects, in JSON.

use std::collections::BTreeMap;

use nacre_object::TargetName;
use nacre_route::{Copies, CopySummary, Io, Operation, RuleTable};
use serde::{Deserialize, Serialize};

use super::reads::scatter_of;

/// The copies of a node's objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesStatus {
    /// How many copies are current.
    pub current: usize,
    /// How many copies are being made.
    pub in_the_making: usize,
    /// The bytes of the current copies.
    pub bytes: u64,
    /// How many copies became current since the node started.
    pub made: u64,
    /// How many copies could not be made since the node started.
    pub failed: u64,
    /// How many updates copies have applied since the node started.
    #[serde(default)]
    pub updates: u64,
    /// How many updates copies did not confirm since the node started.
    #[serde(default)]
    pub updates_failed: u64,
    /// How many reads of objects with copies each target has served since the node started.
    pub reads: BTreeMap<String, u64>,
}

impl From<CopySummary> for CopiesStatus {
    fn from(summary: CopySummary) -> Self {
        let CopySummary {
            current,
            in_the_making,
            bytes,
            made,
            failed,
            updates,
            updates_failed,
            served,
        } = summary;
        let reads = served.into_iter().map(|(target, count)| (target.to_string(), count)).collect();
        Self { current, in_the_making, bytes, made, failed, updates, updates_failed, reads }
    }
}

/// A target that a rule about copies of an object names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyWay {
    /// The target.
    pub target: String,
    /// Whether it has a current copy. The home always has one.
    pub is_current: bool,
}

/// The targets among which a read is scattered, or whose copies get a write, if one rule scatters all
/// of it. `home` holds the object.
pub(in crate::routes) fn copy_ways(
    table: &RuleTable,
    copies: &Copies,
    io: &Io,
    home: &TargetName,
) -> Vec<CopyWay> {
    // Creates and deletes go to the home alone.
    if !matches!(io.operation, Operation::Read | Operation::Write) {
        return vec![];
    }
    let Some((_, scatter)) = scatter_of(table, io) else { return vec![] };
    let way = |target: &TargetName| CopyWay {
        target: target.to_string(),
        is_current: copies.is_current(&io.object, home, target),
    };
    scatter.among.iter().map(way).collect()
}
