//! A storage target's part of the node's report.

use nacre_embedded::EmbeddedEngine;
use nacre_object::Error;
use serde::{Deserialize, Serialize};

/// Why a storage target does not serve from the folder it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefusalReport {
    /// The reason of the refusal.
    pub reason: String,
    /// How to repair it.
    pub hint: Option<String>,
}

/// Counts of requests since the node started, by where they ran: in the OSD or in the gateway.
/// Counts only requests that call a method, and requests that change an object only if a check
/// succeeds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RadosReport {
    /// In OSDs, by nacre's class.
    pub by_nacre: u64,
    /// In OSDs, by Ceph's class `lua`.
    pub by_cls_lua: u64,
    /// In the node, because the OSD would have dropped the answer as too long.
    pub long_answers: u64,
    /// The methods, as `CLASS.METHOD`, that run in the node at present because their answers are
    /// too long.
    pub long_answer_methods: Vec<String>,
    /// Since when the Ceph cluster has been silent, if it is: microseconds since 1970, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_since_micros: Option<u64>,
}

/// An engine's counters since it was opened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StorageReport {
    /// Transactions that changed something.
    pub transactions: u64,
    /// Requests answered without a change.
    pub reads: u64,
    /// Syncs that made the changes durable.
    pub syncs: u64,
    /// Requests waiting or running.
    pub queued: u64,
    /// Bytes of its journal, payloads included.
    pub journal_bytes: u64,
    /// Bytes free on its disk.
    pub free_bytes: u64,
    /// How many of the free bytes are reserved. While fewer are free, nothing may grow.
    #[serde(default)]
    pub reserve_bytes: u64,
    /// Why it takes no more writes, if it does not.
    pub failure: Option<String>,
}

impl RefusalReport {
    pub(super) fn of(refusal: &Error) -> Self {
        let (reason, hint) = (refusal.message().to_owned(), refusal.hint_text().map(str::to_owned));
        Self { reason, hint }
    }
}

impl StorageReport {
    pub(super) fn of(engine: &EmbeddedEngine) -> Self {
        let stats = engine.stats();
        Self {
            transactions: stats.transactions,
            reads: stats.reads,
            syncs: stats.groups,
            queued: stats.queued,
            journal_bytes: stats.segment_bytes,
            free_bytes: stats.free_bytes,
            reserve_bytes: stats.reserve_bytes,
            failure: engine.failure(),
        }
    }

    /// Whether the engine allows only reads and removals, because it lacks room.
    pub fn is_full(&self) -> bool {
        self.free_bytes < self.reserve_bytes
    }
}
