//! The service `node`, by which a node reports about itself and its cluster, in JSON.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `status` | – | a [`NodeReport`] |
//! | `locate` | `POOL/OBJECT` | an [`ObjectLocation`]: which node to ask for the object |
//! | `exchange` | the length of the answer, u32 little-endian, then any bytes | that many zeros, at most [`MAX_EXCHANGE_BYTES`]; clients measure with it what a request without work costs |
//! | `traces` | an id, `recent` or `slow` | the spans of that trace, or summaries of traces, in the format of [`nacre_telemetry`] |
//! | `calls` | – | the [`NodeCalls`]: counts of the calls of its classes |
//! | `entities` | an epoch of the map `entities`, in decimal digits | the epoch that is in force on this node; the node answers once this is at least the requested epoch |
//!
//! With `locate`, clients in other languages need not implement the placement rule.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::classes::ClassService;
use async_trait::async_trait;
use bytes::Bytes;
use nacre::{Cluster, ClusterFile};
use nacre_balance::NodeTraits;
use nacre_object::{Error, ObjectId, Result};
use nacre_rados::Survey;
use nacre_registry::LiveEntities;
use nacre_telemetry::Spans;
use nacre_wire::{Caller, Service};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::calls::NodeCalls;
use crate::roles::{RadosReport, RefusalReport, RunningRole, StorageReport};
use crate::traces;

/// The service's name on the wire.
pub const NODE_SERVICE: &str = "node";

/// The longest answer to `exchange`. Longer answers are split into several frames, so they would
/// measure the flow control of the connection.
pub const MAX_EXCHANGE_BYTES: usize = 64 * 1024;

/// A node at a glance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// The names of the node's roles.
    pub roles: Vec<String>,
    /// Its process.
    pub pid: u32,
    /// The release it runs.
    pub release: String,
    /// When it was started: microseconds since 1970, UTC.
    pub started_at_micros: u64,
    /// The classes that are live on it, with their versions.
    pub classes: Vec<(String, u64)>,
    /// Where its metrics are: `http://ADDRESS/metrics`.
    pub metrics: SocketAddr,
    /// Its engine, if it keeps objects.
    pub storage: Option<StorageReport>,
    /// Why its storage target does not serve, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<RefusalReport>,
    /// Where methods run, if a Ceph cluster keeps the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub osds: Option<Survey>,
    /// How many requests OSDs ran for this node, if a Ceph cluster stores the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rados: Option<RadosReport>,
    /// The traits that the operator gave the node, if it hosts units that can be balanced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traits: Option<NodeTraits>,
    /// Processor time that its process has used, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_seconds: Option<f64>,
}

/// Which node keeps an object, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectLocation {
    /// The node.
    pub target: String,
    /// Its Unix socket, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Where it listens with mutual TLS, if it does: `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Answers for a node.
#[derive(Debug)]
pub(crate) struct NodeService {
    /// The node, as it registers.
    pub record: nacre::Node,
    /// The node's roles.
    pub roles: Vec<Arc<dyn RunningRole>>,
    /// Its classes.
    pub classes: ClassService,
    /// The cluster's nodes.
    pub file: ClusterFile,
    /// The cluster.
    pub cluster: Cluster,
    /// The entities and their rights.
    pub entities: Arc<LiveEntities>,
    /// The spans of traced requests.
    pub spans: Arc<Spans>,
    /// Where the node's metrics are.
    pub metrics: SocketAddr,
}

impl NodeService {
    fn locate(&self, input: &[u8]) -> Result<ObjectLocation> {
        let text = std::str::from_utf8(input)
            .map_err(|_| Error::invalid("the input is not a UTF-8 string"))?;
        let target = self.cluster.locate(&text.parse::<ObjectId>()?).to_string();
        let node = self.file.node(&target)?;
        let socket = self.file.socket(node)?;
        let socket = socket.and_then(|socket| Some(socket.path()?.display().to_string()));
        Ok(ObjectLocation { address: node.address.clone(), socket, target })
    }

    async fn reached(&self, input: &[u8]) -> Result<u64> {
        let epoch = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok());
        let epoch = epoch.ok_or_else(|| {
            Error::invalid("the input is not an epoch").hint("send an epoch in decimal digits")
        })?;
        self.entities.reached(epoch).await
    }

    fn report(&self) -> NodeReport {
        let mut report = NodeReport {
            name: self.record.name.to_string(),
            roles: self.record.roles.clone(),
            pid: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_micros: self.record.started_at_micros,
            classes: self.classes.live(),
            metrics: self.metrics,
            storage: None,
            refusal: None,
            osds: None,
            rados: None,
            traits: None,
            processor_seconds: Some(processor_seconds()),
        };
        self.roles.iter().for_each(|role| role.report(&mut report));
        report
    }
}

#[async_trait]
impl Service for NodeService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "status" => json(&self.report()),
            "locate" => json(&self.locate(&input)?),
            "exchange" => exchange(&input),
            "calls" => json(&NodeCalls::of(&self.classes)),
            "traces" => traces::tell(&self.spans, &input),
            "entities" => json(&self.reached(&input).await?),
            _ => Err(Error::unsupported(format!("a node has no method {method:?}"))
                .hint("run one release of nacre on clients and nodes")),
        }
    }

    fn only_waits(&self, method: &str) -> bool {
        method == "entities"
    }
}

/// This clock is finer than `/proc`, which counts hundredths of a second.
fn processor_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

fn exchange(input: &Bytes) -> Result<Bytes> {
    static ZEROS: [u8; MAX_EXCHANGE_BYTES] = [0; MAX_EXCHANGE_BYTES];
    let length = input.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    let answer = length.and_then(|length| ZEROS.get(..length)).ok_or_else(|| {
        Error::invalid("the input does not begin with an allowed length of the answer")
            .hint(format!("begin with a length of at most {MAX_EXCHANGE_BYTES}, u32 little-endian"))
    })?;
    Ok(Bytes::from_static(answer))
}

pub(crate) fn json(answer: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(answer).map_err(|error| Error::corrupt(error.to_string()))?;
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_returns_the_requested_number_of_bytes_up_to_its_limit() {
        let ask = |length: usize| exchange(&Bytes::from((length as u32).to_le_bytes().to_vec()));
        for length in [0, 1, MAX_EXCHANGE_BYTES] {
            assert_eq!(ask(length).unwrap().len(), length);
        }
        assert!(ask(MAX_EXCHANGE_BYTES + 1).is_err());
        assert!(exchange(&Bytes::from_static(b"abc")).is_err());
    }
}
