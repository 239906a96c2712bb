//! The service `storage`: looks after the objects that a target keeps.
//!
//! | method | input | answer |
//! | --- | --- | --- |
//! | `scrub` | where this step of a scrub begins, as the report of the previous step says; empty for the first step | a [`ScrubReport`] in JSON |
//! | `remove-stray` | `POOL/OBJECT` | empty; removes the node's copy of an object that another node holds |
//! | `limit` | a number in decimal digits; at a gateway to Ceph `osd.N` and a space before it | empty; the target or OSD serves at most this many requests a second from now on, 0 removes the limit ([`device_limit`](crate::device_limit)) |

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre::Cluster;
use nacre_embedded::{Damage, EmbeddedEngine, SCRUB_STEP_BYTES, ScrubCursor, ScrubStep};
use nacre_object::{Error, NodeName, ObjectId, Op, Request, Result, Store, TargetName};
use nacre_qos::IoKind;
use nacre_slo::NodeSlo;
use nacre_wire::{Caller, Service};
use serde::{Deserialize, Serialize};

use crate::device_limit::DeviceLimits;
use crate::node_service::json;

/// The service's name on the wire.
pub const STORAGE_SERVICE: &str = "storage";

/// The result of one step of a scrub. A caller requests one step after another, at any pace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// The damages that the step found.
    pub damages: Vec<DamageReport>,
    /// How many further damages the step found.
    pub more_damages: u64,
    /// Objects that are stored here although another node holds them.
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

/// A place on a node's disk with other bytes than were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamageReport {
    /// The damaged object, as `POOL/OBJECT`, if the damage belongs to an object that can be
    /// identified.
    pub object: Option<String>,
    /// The object's snapshot, if it is in one.
    pub snapshot: Option<String>,
    /// Where it is: a file and byte, or an entry.
    pub place: String,
    /// The damage.
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

/// Answers for a target.
#[derive(Debug)]
pub(super) struct StorageService {
    /// The node.
    pub node: NodeName,
    /// Its engine, if it keeps objects.
    pub engine: Option<EmbeddedEngine>,
    /// Why its target does not serve, if it does not.
    pub refusal: Option<Error>,
    /// The cluster.
    pub cluster: Cluster,
    /// The queue in which a scrub waits for its turn, if there is an engine.
    pub slo: Option<Arc<NodeSlo>>,
    /// The limits of the simulated devices, if the target serves.
    pub limits: Option<Arc<DeviceLimits>>,
}

impl StorageService {
    /// Its engine.
    ///
    /// # Errors
    /// Why its target does not serve; `Unsupported` if it keeps no objects.
    fn engine(&self) -> Result<EmbeddedEngine> {
        self.engine.clone().ok_or_else(|| self.no_engine())
    }

    /// Why it has no engine.
    fn no_engine(&self) -> Error {
        let nothing = || Error::unsupported(format!("node {} keeps no objects", self.node));
        self.refusal.clone().unwrap_or_else(nothing)
    }

    /// The node that holds an object, if that is another node.
    fn other_holder(&self, object: &ObjectId) -> Option<String> {
        let holder = self.cluster.locate(object);
        (holder.as_str() != self.node.as_str()).then(|| holder.to_string())
    }

    async fn remove_stray(&self, input: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(input).map_err(|_| Error::invalid("not UTF-8"))?;
        let object: ObjectId = text.parse()?;
        if self.other_holder(&object).is_none() {
            let text = format!("{} holds {object} by the placement: it is no stray", self.node);
            return Err(Error::invalid(text).hint(format!("`nacre object rm {object}` removes it")));
        }
        let engine = self.engine()?;
        let request = Request::new(object, vec![Op::Remove])?;
        engine.submit(request).await.map(drop)
    }

    /// A target whose requests pass this process.
    fn limited(&self, name: &str, own: &TargetName) -> Result<TargetName> {
        let target = TargetName::new(name)?;
        let is_known = match self.engine {
            Some(_) => target == *own,
            None => name.strip_prefix("osd.").is_some_and(|id| id.parse::<u32>().is_ok()),
        };
        match is_known {
            true => Ok(target),
            false => Err(Error::invalid(format!("{name} is no target of {}", self.node))
                .hint("name the node's own target, or to a gateway an OSD such as osd.1")),
        }
    }

    fn limit(&self, input: &[u8]) -> Result<()> {
        let limits = self.limits.as_ref().ok_or_else(|| self.no_engine())?;
        let text = std::str::from_utf8(input).unwrap_or_default();
        let (target, number) = match text.split_once(' ') {
            Some((target, number)) => (self.limited(target, &limits.own_target())?, number),
            None if self.engine.is_some() => (limits.own_target(), text),
            None => {
                let text = format!("{} is a gateway, so its targets are OSDs", self.node);
                return Err(
                    Error::invalid(text).hint("name an OSD before the number, such as `osd.1 150`")
                );
            }
        };
        let number = number.parse().map_err(|_| {
            Error::invalid("the limit is not a number")
                .hint("send a number of requests a second; 0 removes the limit")
        })?;
        limits.set(target, number)
    }

    async fn scrub(&self, input: &[u8]) -> Result<ScrubReport> {
        let engine = self.engine()?;
        let cursor = match std::str::from_utf8(input) {
            Ok("") => ScrubCursor::default(),
            Ok(text) => text.parse()?,
            Err(_) => return Err(Error::invalid("not UTF-8")),
        };
        let turn = match &self.slo {
            Some(slo) => Some(slo.background(IoKind::Read, SCRUB_STEP_BYTES as u32).await?),
            None => None,
        };
        // A scrub reads from the disk, so it must not run on a thread that serves requests.
        let step = tokio::task::spawn_blocking(move || engine.scrub(&cursor)).await;
        let step = step
            .map_err(|error| Error::corrupt(format!("the thread of the scrub ended: {error}")))??;
        if let Some(turn) = turn {
            turn.done(step.bytes);
        }
        let stray = |object: &ObjectId| {
            Some(StrayReport { holder: self.other_holder(object)?, object: object.to_string() })
        };
        let strays = step.objects.iter().filter_map(stray).collect();
        Ok(ScrubReport { strays, ..step.into() })
    }
}

#[async_trait]
impl Service for StorageService {
    async fn ask(&self, _: &Caller, method: &str, input: Bytes) -> Result<Bytes> {
        match method {
            "scrub" => json(&self.scrub(&input).await?),
            "limit" => self.limit(&input).map(|()| Bytes::new()),
            "remove-stray" => self.remove_stray(&input).await.map(|()| Bytes::new()),
            _ => Err(Error::unsupported(format!("a storage target has no method {method:?}"))
                .hint("run one release of nacre on clients and nodes")),
        }
    }
}
