//! Ledgers record which objects may have messages, so that another process can find these objects
//! after a crash. A ledger is an object of the system pool. It contains *marks*: each names an
//! object that may have messages.
//!
//! If the object's target has a ledger, the mark goes there. Then a failed target makes the object
//! and its mark unavailable together.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{
    ClassCall, ClassName, EntityName, Error, ErrorKind, Locate, MapEntry, MapRange, MethodName,
    ObjectId, ObjectName, Op, OpResult, PoolName, Request, Result, Store, TargetName,
};
use prost::Message;

use crate::class::CLASS;
use crate::format::{OutboxMark, Unmark, marks_of, stored};
use crate::limits::{LEDGERS, PAGE_MARKS};

/// A mark as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMark {
    pub ledger: ObjectId,
    pub key: Bytes,
    pub mark: OutboxMark,
    pub object: ObjectId,
    pub source: EntityName,
    /// Which process made it.
    pub process: String,
}

/// The marks of a cluster.
#[derive(Clone)]
pub(crate) struct Ledger {
    store: Arc<dyn Store>,
    locate: Arc<dyn Locate>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A ledger.
fn ledger(number: u64) -> ObjectId {
    let name = format!("channels/{number:02}");
    ObjectId::new(PoolName::system(), ObjectName::new(name).expect("a well-formed literal"))
}

/// A hash of a name, the same in every process (FNV-1a).
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Ledger {
    pub fn new(store: Arc<dyn Store>, locate: Arc<dyn Locate>) -> Self {
        Self { store, locate }
    }

    /// The ledger of an object.
    pub fn of(&self, object: &ObjectId) -> ObjectId {
        let target = self.locate.locate(object);
        let first = hash(&object.to_string()) % LEDGERS;
        let mut in_turn = (first..first + LEDGERS).map(|number| ledger(number % LEDGERS));
        let near = in_turn.find(|ledger| self.locate.locate(ledger) == target);
        near.unwrap_or_else(|| ledger(first))
    }

    /// The ledgers on these targets.
    pub fn on(&self, targets: &HashSet<TargetName>) -> Vec<ObjectId> {
        let all = (0..LEDGERS).map(ledger);
        all.filter(|ledger| targets.contains(&self.locate.locate(ledger))).collect()
    }

    /// The key of a mark in its ledger. It says which process marks which object for which entity.
    /// It contains the mark's random number, so no two marks have the same key.
    pub fn key(object: &ObjectId, source: &EntityName, process: &str, mark: OutboxMark) -> Bytes {
        format!("{object}\0{source}\0{process}\0{:016x}", mark.nonce).into()
    }

    /// Makes a mark.
    pub async fn mark(&self, ledger: &ObjectId, key: Bytes, mark: OutboxMark) -> Result<()> {
        let entries = vec![MapEntry { key, value: mark.encode_to_vec().into() }];
        self.submit(ledger, Op::MapSet { entries }).await.map(|_| ())
    }

    /// Removes a mark, if it was not replaced.
    pub async fn unmark(&self, ledger: &ObjectId, key: Bytes, mark: OutboxMark) -> Result<()> {
        let call = ClassCall {
            class: ClassName::new(CLASS)?,
            method: MethodName::new("unmark")?,
            version: None,
            input: Unmark { key, mark }.encode_to_vec().into(),
        };
        self.submit(ledger, Op::Call(call)).await.map(|_| ())
    }

    /// The entities whose requests may have sent the messages of an object.
    pub async fn sources(&self, object: &ObjectId) -> Result<HashSet<EntityName>> {
        let ledger = self.of(object);
        let (mut sources, mut after) = (HashSet::new(), Bytes::new());
        loop {
            let (marks, next) = self.page(&ledger, after, marks_of(object).into()).await?;
            sources.extend(marks.into_iter().map(|mark| mark.source));
            match next {
                Some(next) => after = next,
                None => return Ok(sources),
            }
        }
    }

    /// Some marks of a ledger with this prefix, and where to continue. Malformed entries are
    /// skipped.
    pub async fn page(
        &self,
        ledger: &ObjectId,
        after: Bytes,
        prefix: Bytes,
    ) -> Result<(Vec<StoredMark>, Option<Bytes>)> {
        let op = Op::MapRange { after, prefix, limit: PAGE_MARKS };
        let range = match self.submit(ledger, op).await {
            Ok(OpResult::Range(range)) => range,
            Err(error) if error.kind() == ErrorKind::NotFound => MapRange::default(),
            Err(error) => return Err(error),
            Ok(_) => {
                return Err(Error::corrupt("the reply to a read of marks is not a range of keys"));
            }
        };
        let next = range.entries.last().filter(|_| range.more).map(|last| last.key.clone());
        let marks = range.entries.into_iter().filter_map(|entry| parsed(ledger, entry));
        Ok((marks.collect(), next))
    }

    async fn submit(&self, ledger: &ObjectId, op: Op) -> Result<OpResult> {
        let request = Request::new(ledger.clone(), vec![op])?;
        let mut reply = self.store.submit(request).await.map_err(|error| error.on(ledger))?;
        reply.results.pop().ok_or_else(|| Error::corrupt("the reply to a request has no result"))
    }
}

fn parsed(ledger: &ObjectId, entry: MapEntry) -> Option<StoredMark> {
    let text = std::str::from_utf8(&entry.key).ok()?;
    let (object, rest) = text.split_once('\0')?;
    let (source, rest) = rest.split_once('\0')?;
    let (process, _) = rest.split_once('\0')?;
    Some(StoredMark {
        ledger: ledger.clone(),
        object: object.parse().ok()?,
        source: source.parse().ok()?,
        process: process.to_owned(),
        mark: stored("a mark", entry.value).ok()?,
        key: entry.key,
    })
}
