//! What a node says of itself: the service `node`, method `status`, answered in JSON.

use async_trait::async_trait;
use bytes::Bytes;
use nacre::ClassService;
use nacre_embedded::EmbeddedEngine;
use nacre_object::{Error, Result};
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};

/// The service's name on the wire.
pub const NODE_SERVICE: &str = "node";

/// A node at a glance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// What it does.
    pub roles: Vec<String>,
    /// Its process.
    pub pid: u32,
    /// The release it runs.
    pub release: String,
    /// When it was started: microseconds since 1970, UTC.
    pub started_at_micros: u64,
    /// The classes that are live on it, with their versions.
    pub classes: Vec<(String, u64)>,
    /// Its engine, if it keeps objects.
    pub storage: Option<StorageReport>,
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
    /// Why it takes no more writes, if it does not.
    pub failure: Option<String>,
}

/// Answers for a node.
#[derive(Debug)]
pub struct StatusService {
    record: nacre::Node,
    engine: Option<EmbeddedEngine>,
    classes: ClassService,
}

impl StatusService {
    /// Of the node with this record.
    pub fn new(record: nacre::Node, engine: Option<EmbeddedEngine>, classes: ClassService) -> Self {
        Self { record, engine, classes }
    }

    fn storage_report(engine: &EmbeddedEngine) -> StorageReport {
        let stats = engine.stats();
        StorageReport {
            transactions: stats.transactions,
            reads: stats.reads,
            syncs: stats.groups,
            queued: stats.queued,
            journal_bytes: stats.segment_bytes,
            free_bytes: stats.free_bytes,
            failure: engine.failure(),
        }
    }

    fn report(&self) -> NodeReport {
        NodeReport {
            name: self.record.name.to_string(),
            roles: self.record.roles.clone(),
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_micros: self.record.started_at_micros,
            classes: self.classes.live(),
            storage: self.engine.as_ref().map(Self::storage_report),
        }
    }
}

#[async_trait]
impl Service for StatusService {
    async fn ask(&self, _: &Caller, method: &str, _: Bytes) -> Result<Bytes> {
        if method != "status" {
            return Err(Error::unsupported(format!("a node has no method {method:?}")));
        }
        let report = serde_json::to_vec(&self.report());
        report.map(Bytes::from).map_err(|error| Error::corrupt(error.to_string()))
    }
}
