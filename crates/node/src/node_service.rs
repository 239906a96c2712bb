//! What a node says of itself and of its cluster: the service `node`, answered in JSON.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `status` | – | a [`NodeReport`] |
//! | `locate` | `POOL/OBJECT` | an [`ObjectPlace`]: which node to ask for the object |
//! | `exchange` | the length of the answer, u32 little-endian, then anything | so many zeros, at most [`MAX_EXCHANGE_BYTES`]: what a question costs that needs no work |
//! | `scrub` | where a step of a scrub begins, as the one before said; nothing for the first | a [`ScrubReport`] |
//! | `remove-stray` | `POOL/OBJECT` | nothing; the node's copy of an object that another node holds is removed |
//! | `traces` | an id, `recent` or `slow` | the spans of that trace, or summaries of traces, as [`nacre_telemetry`] has them |
//! | `calls` | – | the [`NodeCalls`]: what its classes were asked |
//! | `entities` | an epoch of the map `entities`, in digits | the epoch that is in force here, which is that one or later: the answer waits for it |
//!
//! `locate` spares clients in other languages the placement rule.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre::{ClassService, Cluster, ClusterFile};
use nacre_embedded::{Damage, EmbeddedEngine, ScrubCursor, ScrubStep};
use nacre_object::{Error, ObjectId, Op, Request, Result, Store};
use nacre_rados::Survey;
use nacre_registry::LiveEntities;
use nacre_telemetry::Spans;
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};

use crate::calls::NodeCalls;
use crate::ceph_gateway::CephGateway;
use crate::traces;

/// The service's name on the wire.
pub const NODE_SERVICE: &str = "node";

/// The longest answer to `exchange`: beyond it a stream's frames and windows are what is measured.
pub const MAX_EXCHANGE_BYTES: usize = 64 * 1024;

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
    /// What OSDs ran for it, if a Ceph cluster keeps the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rados: Option<RadosReport>,
}

/// Why a storage target does not serve from the folder it has.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefusalReport {
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: Option<String>,
}

/// Where requests that call a method, or change what they look at, were run since the node started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RadosReport {
    /// In OSDs, by nacre's class.
    pub by_nacre: u64,
    /// In OSDs, by Ceph's class `lua`.
    pub by_cls_lua: u64,
    /// In the node, because the OSD would have dropped what they answer as too long.
    pub long_answers: u64,
    /// The methods, as `CLASS.METHOD`, that are run in the node at present for that.
    pub long_answer_methods: Vec<String>,
    /// Since when the Ceph cluster does not answer, if it does not: microseconds since 1970, UTC.
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
    /// Of these, what is held back: below it nothing grows.
    #[serde(default)]
    pub reserve_bytes: u64,
    /// Why it takes no more writes, if it does not.
    pub failure: Option<String>,
}

impl StorageReport {
    /// Whether it reads and removes only, for want of room.
    pub fn is_full(&self) -> bool {
        self.free_bytes < self.reserve_bytes
    }
}

/// What one step of a scrub came to. A caller asks step after step, as fast as it likes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// What was found.
    pub damages: Vec<DamageReport>,
    /// What was found besides, counted only.
    pub more_damages: u64,
    /// Objects that are here, though another node holds objects of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strays: Vec<StrayReport>,
    /// Entries looked at.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Where the next step begins; `None` at the end.
    pub next: Option<String>,
}

/// An object that is on a node where no client looks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrayReport {
    /// It, as `POOL/OBJECT`.
    pub object: String,
    /// The node that holds objects of this name.
    pub holder: String,
}

/// Something on a node's disk that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageReport {
    /// Whose it is, as `POOL/OBJECT`, if it is an object's and that can be known.
    pub object: Option<String>,
    /// The object's snapshot, if it is in one.
    pub snapshot: Option<String>,
    /// Where it is: a file and byte, or an entry.
    pub place: String,
    /// What is wrong.
    pub problem: String,
    /// Whether it was made good.
    pub repaired: bool,
}

impl From<ScrubStep> for ScrubReport {
    fn from(step: ScrubStep) -> Self {
        let damage = |damage: Damage| DamageReport {
            object: damage.object,
            snapshot: damage.snapshot,
            place: damage.place,
            problem: damage.problem,
            repaired: damage.is_repaired,
        };
        Self {
            damages: step.damages.into_iter().map(damage).collect(),
            more_damages: step.more_damages,
            strays: vec![],
            entries: step.entries,
            bytes: step.bytes,
            next: step.next.map(|next| next.to_string()),
        }
    }
}

/// Which node keeps an object, whether it exists or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPlace {
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
pub struct NodeService {
    /// The node, as it registers.
    pub record: nacre::Node,
    /// Its engine, if it keeps objects.
    pub engine: Option<EmbeddedEngine>,
    /// Why its target does not serve, if it does not.
    pub refusal: Option<Error>,
    /// The way to the Ceph cluster that keeps objects, if one does.
    pub gateway: Option<Arc<CephGateway>>,
    /// Its classes.
    pub classes: ClassService,
    /// The cluster's nodes.
    pub file: ClusterFile,
    /// The cluster.
    pub cluster: Cluster,
    /// Who may do what here.
    pub entities: Arc<LiveEntities>,
    /// Those of traced requests.
    pub spans: Arc<Spans>,
    /// Where the node's metrics are.
    pub metrics: SocketAddr,
}

impl NodeService {
    fn locate(&self, input: &[u8]) -> Result<ObjectPlace> {
        let text = std::str::from_utf8(input).map_err(|_| Error::invalid("not UTF-8"))?;
        let target = self.cluster.locate(&text.parse::<ObjectId>()?).to_string();
        let node = self.file.node(&target)?;
        let socket = self.file.socket(node)?;
        let socket = socket.and_then(|socket| Some(socket.path()?.display().to_string()));
        Ok(ObjectPlace { address: node.address.clone(), socket, target })
    }

    async fn reached(&self, input: &[u8]) -> Result<u64> {
        let epoch = std::str::from_utf8(input).ok().and_then(|text| text.parse().ok());
        let epoch = epoch.ok_or_else(|| Error::invalid("the input is no epoch"))?;
        self.entities.reached(epoch).await
    }

    /// Its engine.
    ///
    /// # Errors
    /// Why its target does not serve; `Unsupported` if it keeps no objects.
    fn engine(&self) -> Result<EmbeddedEngine> {
        let nothing = || Error::unsupported(format!("node {} keeps no objects", self.record.name));
        let no_engine = || self.refusal.clone().unwrap_or_else(nothing);
        self.engine.clone().ok_or_else(no_engine)
    }

    /// The node that holds an object, if it is another one.
    fn other_holder(&self, object: &ObjectId) -> Option<String> {
        let holder = self.cluster.locate(object);
        (holder.as_str() != self.record.name.as_str()).then(|| holder.to_string())
    }

    async fn remove_stray(&self, input: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(input).map_err(|_| Error::invalid("not UTF-8"))?;
        let object: ObjectId = text.parse()?;
        if self.other_holder(&object).is_none() {
            let text = format!("{} holds {object}: it is no stray", self.record.name);
            return Err(Error::invalid(text).hint(format!("`nacre object rm {object}` removes it")));
        }
        let engine = self.engine()?;
        let request = Request::new(object, vec![Op::Remove])?;
        engine.submit(request).await.map(drop)
    }

    async fn scrub(&self, input: &[u8]) -> Result<ScrubReport> {
        let engine = self.engine()?;
        let cursor = match std::str::from_utf8(input) {
            Ok("") => ScrubCursor::default(),
            Ok(text) => text.parse()?,
            Err(_) => return Err(Error::invalid("not UTF-8")),
        };
        // It reads from the disk: not on a thread that serves others.
        let step = tokio::task::spawn_blocking(move || engine.scrub(&cursor)).await;
        let step = step.map_err(|error| Error::corrupt(format!("the scrub: {error}")))??;
        let stray = |object: &ObjectId| {
            Some(StrayReport { holder: self.other_holder(object)?, object: object.to_string() })
        };
        let strays = step.objects.iter().filter_map(stray).collect();
        Ok(ScrubReport { strays, ..step.into() })
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
            reserve_bytes: stats.reserve_bytes,
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
            metrics: self.metrics,
            storage: self.engine.as_ref().map(Self::storage_report),
            refusal: self.refusal.as_ref().map(|refusal| RefusalReport {
                reason: refusal.message().to_owned(),
                hint: refusal.hint_text().map(str::to_owned),
            }),
            osds: self.gateway.as_ref().and_then(|gateway| gateway.osds.latest()),
            rados: self.gateway.as_ref().map(|gateway| gateway.report()),
        }
    }
}

#[async_trait]
impl Service for NodeService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "status" => json(&self.report()),
            "locate" => json(&self.locate(&input)?),
            "scrub" => json(&self.scrub(&input).await?),
            "remove-stray" => self.remove_stray(&input).await.map(|()| Bytes::new()),
            "exchange" => exchange(&input),
            "calls" => json(&NodeCalls::of(&self.classes)),
            "traces" => traces::tell(&self.spans, &input),
            "entities" => json(&self.reached(&input).await?),
            _ => Err(Error::unsupported(format!("a node has no method {method:?}"))),
        }
    }

    fn only_waits(&self, method: &str) -> bool {
        method == "entities"
    }
}

fn exchange(input: &Bytes) -> Result<Bytes> {
    static ZEROS: [u8; MAX_EXCHANGE_BYTES] = [0; MAX_EXCHANGE_BYTES];
    let length = input.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
    let answer = length.and_then(|length| ZEROS.get(..length)).ok_or_else(|| {
        Error::invalid("an exchange without a length of its answer, or with too great a one")
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
    fn an_exchange_answers_as_much_as_it_is_asked_for_within_its_bound() {
        let ask = |length: usize| exchange(&Bytes::from((length as u32).to_le_bytes().to_vec()));
        for length in [0, 1, MAX_EXCHANGE_BYTES] {
            assert_eq!(ask(length).unwrap().len(), length);
        }
        assert!(ask(MAX_EXCHANGE_BYTES + 1).is_err());
        assert!(exchange(&Bytes::from_static(b"abc")).is_err());
    }
}
