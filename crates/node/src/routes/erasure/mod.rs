//! Erasure coding of objects at rest, for rules such as
//! `* * data/archive/* -> erasure 2 storage.0,storage.1,storage.2`.
//!
//! When an object has not changed for a while, its home computes fragments of its bytes, one for each
//! target of the rule. Once all fragments are durable, one transaction at the home drops the bytes and
//! notes where the fragments are ([`ErasureStub`]). The object stays where it is, with its size,
//! attributes and keys.
//!
//! - [`requests`]: the way of a request on such an object. Reads get their bytes from fragments. A change
//!   first brings the bytes home.
//! - [`maker`]: looks for objects that have to be coded, brought home or coded anew.
//! - [`fragments`]: writes, reads and drops the fragments of one object. [`code`] computes them.
//! - [`audit`]: finds fragments that are lost, and fragments that belong to no object.
//!
//! # Invariants
//!
//! - An object has its bytes, or a note of fragments that are durable. One transaction replaces the
//!   bytes by the note. The note is removed when all bytes are home again.
//! - Requests on an object share a turn ([`Turns`](super::turns::Turns)). The object goes from the one
//!   state to the other only in a turn that nothing shares.
//! - Requests that began before there was a rule about their object have no such turn ([`Outside`]). The
//!   maker codes objects by the rules that there were before it has waited for these requests.
//! - A switch that has started knows nothing of fragments, and looks for the note at each object that a
//!   rule, present or former, may have coded. The record of rules names a former rule until all of its
//!   objects are home.
//! - A set of fragments is written once and has a number of its own. It is dropped only if its object
//!   has no note with this number.

mod audit;
mod code;
mod fragments;
mod maker;
mod requests;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::{
    ErrorKind, IoHeader, NodeName, ObjectId, ObjectStat, Op, OpResult, Result, Store,
};
use nacre_route::{
    Destination, ERASURE_ATTRIBUTE, Erasure, ErasureStub, FastHashMap, FastHashSet, ObjectMatch,
    RuleTable,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::NodeSwitch;
use super::control::SHORT_REST;
use super::turns::{Turn, Turns};
use super::versions::with_ops;

pub(super) use self::audit::FragmentListAsk;
pub(super) use self::maker::run;

/// How many objects the switch remembers that have their bytes.
const MAX_KNOWN: usize = 65_536;
/// How many objects with lost fragments are remembered. The audit finds all others again.
const MAX_DAMAGED: usize = 4096;

/// What a node says of its erasure-coded objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureStatus {
    /// How many objects are coded, as of the last pass over them.
    pub objects: u64,
    /// The bytes of these objects.
    pub bytes: u64,
    /// The bytes of their fragments.
    pub fragment_bytes: u64,
    /// How often an object was coded since the node started.
    pub coded: u64,
    /// How often the bytes of an object were brought home since the node started.
    pub brought_home: u64,
    /// How many reads had to compute bytes, because a fragment with them could not be read.
    pub computed_reads: u64,
    /// How often an object was found of which a fragment was lost or damaged.
    pub lost: u64,
    /// How often an object could not be coded or brought home.
    pub failed: u64,
    /// Why the last pass has left an object as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A request on an object that is not erasure-coded. It takes no turn, so while such requests run that
/// began under former rules, no object is coded.
#[derive(Debug, Clone)]
pub(super) struct Outside(#[expect(dead_code, reason = "it is counted")] Arc<()>);

/// What the switch knows of erasure-coded objects.
#[derive(Debug, Default)]
pub(super) struct Erasures {
    turns: Arc<Turns>,
    rules: Mutex<Arc<Rules>>,
    /// Objects that have their bytes.
    uncoded: Mutex<FastHashSet<ObjectId>>,
    /// Nodes that did not answer. Until the time, others are asked first.
    resting: Mutex<FastHashMap<NodeName, Instant>>,
    /// Objects with a fragment that is lost.
    damaged: Mutex<FastHashSet<ObjectId>>,
    /// Counts the requests on objects that are not coded.
    outside: Mutex<Arc<()>>,
    /// Whether fragments may be left that belong to no object.
    wants_audit: AtomicBool,
    /// How many sets of fragments are being dropped.
    dropping: AtomicUsize,
    /// The last term under which a whole pass found no coded object without a rule.
    settled_term: AtomicU64,
    status: Mutex<ErasureStatus>,
}

/// The rules that erasure-code objects.
type Rules = [(ObjectMatch, Erasure)];

/// The rule that erasure-codes an object.
fn rule_among(rules: &Rules, object: &ObjectId) -> Option<Erasure> {
    let rule = rules.iter().find(|(objects, _)| objects.matches(object));
    rule.map(|(_, erasure)| erasure.clone())
}

/// An object that has fragments in place of its bytes.
#[derive(Debug, Clone)]
pub(super) struct CodedObject {
    stat: ObjectStat,
    stub: ErasureStub,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Erasures {
    /// The switch has these rules from now on.
    pub fn note_rules(&self, table: &RuleTable) {
        let rules = table.rules().filter_map(|(_, rule)| match &rule.destination {
            Destination::Erasure(erasure) => Some((rule.header.object.clone(), erasure.clone())),
            _ => None,
        });
        *lock(&self.rules) = rules.collect();
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&lock(&self.rules))
    }

    /// The rule that erasure-codes an object.
    fn rule_of(&self, object: &ObjectId) -> Option<Erasure> {
        rule_among(&self.rules(), object)
    }

    /// A turn in which an object keeps its bytes, or its fragments.
    pub async fn share(&self, object: &ObjectId) -> Turn {
        self.turns.share(object).await
    }

    /// A turn in which the object may change from the one to the other.
    async fn alone(&self, object: &ObjectId) -> Turn {
        self.turns.wait(object).await
    }

    fn is_known_uncoded(&self, object: &ObjectId) -> bool {
        lock(&self.uncoded).contains(object)
    }

    fn note_uncoded(&self, object: &ObjectId) {
        let mut uncoded = lock(&self.uncoded);
        if uncoded.len() >= MAX_KNOWN {
            uncoded.clear();
        }
        uncoded.insert(object.clone());
    }

    fn forget(&self, object: &ObjectId) {
        lock(&self.uncoded).remove(object);
    }

    /// A fragment of an object is lost.
    fn note_damaged(&self, object: &ObjectId) {
        let mut damaged = lock(&self.damaged);
        if damaged.len() < MAX_DAMAGED && damaged.insert(object.clone()) {
            self.count(|status| status.lost += 1);
        }
    }

    fn is_damaged(&self, object: &ObjectId) -> bool {
        lock(&self.damaged).contains(object)
    }

    /// An object has no fragments any more.
    fn no_damage(&self, object: &ObjectId) {
        lock(&self.damaged).remove(object);
    }

    /// Begins a request on an object that is not coded.
    pub fn outside(&self) -> Outside {
        Outside(Arc::clone(&lock(&self.outside)))
    }

    /// Waits for the requests that began before.
    async fn until_earlier_are_done(&self) {
        let earlier = std::mem::take(&mut *lock(&self.outside));
        while Arc::strong_count(&earlier) > 1 {
            sleep(SHORT_REST).await;
        }
    }

    fn note_leftover(&self) {
        self.wants_audit.store(true, Ordering::Relaxed);
    }

    /// Whether every coded object has a rule, as far as a whole pass under this term has found.
    pub fn are_only_as_ruled(&self, term: u64) -> bool {
        self.settled_term.load(Ordering::Relaxed) == term
    }

    /// What the node says of its erasure-coded objects.
    pub fn status(&self) -> ErasureStatus {
        lock(&self.status).clone()
    }

    fn count(&self, change: impl FnOnce(&mut ErasureStatus)) {
        change(&mut lock(&self.status));
    }
}

impl NodeSwitch {
    /// The note at an object, with its `stat`; `None` if it has its bytes, or does not exist.
    pub(super) async fn coded_object(&self, header: &IoHeader) -> Result<Option<CodedObject>> {
        let name = ERASURE_ATTRIBUTE.to_owned();
        let ops = vec![Op::Stat, Op::GetAttribute { name }];
        let header = &IoHeader { snapshot: None, ..header.clone() };
        match self.base().submit(with_ops(header, ops)?).await {
            Ok(reply) => match &reply.results[..] {
                [OpResult::Stat(stat), OpResult::Data(stub)] => {
                    let stub =
                        ErasureStub::decode(stub).map_err(|error| error.on(&header.object))?;
                    Ok(Some(CodedObject { stat: *stat, stub }))
                }
                _ => Ok(None),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
