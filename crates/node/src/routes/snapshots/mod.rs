//! Keeps snapshots of all objects of a prefix, if a rule has the destination `snapshots NAME,NAME…`. The
//! newest name is the last. [`pieces`](super::pieces) calls this module for each request that changes
//! such an object, or reads it at one of these names.
//!
//! 1. Before the first change of an object after the newest name was put, the switch keeps the object's
//!    state under this name. If the object does not exist, the switch notes that.
//! 2. A read at a name looks at this name and the later ones, the oldest first. At the first of them under
//!    which a state is kept, the read gets this state. At the first for which it is noted that there was no
//!    object, the read fails. Otherwise the object has not changed since, so the read gets its present
//!    state.
//!
//! There are two ways to keep a state:
//!
//! - [`in_engine`]: a storage node makes a snapshot of the object, which its engine copies on write.
//! - [`in_copies`]: RADOS has no snapshots of single objects, so the router among the gateways to Ceph
//!   copies the object ([`object_copy`]). [`sweeper`] drops the copies that no rule names.
//!
//! Either way an object of the switch's own, the *notes* of the object, has a key for each name at
//! which the object was absent, and for each copy ([`notes`]). [`used_names`] refuses rules that use a
//! name twice.
//!
//! # Invariants
//!
//! - All these requests are IO of the pure switch about the whole object, so none of them runs while rules
//!   change.
//! - Reads at a name, and changes before which the state is kept, run one at a time for each object. No
//!   later change has anything to keep. So nothing changes an object while its state is kept.
//! - No request changes an object before its state, or that it is absent, is durable under the newest
//!   name. A copy counts only once it is noted, and it is noted only once it is complete.

mod in_copies;
mod in_engine;
mod notes;
mod object_copy;
mod sweeper;
mod used_names;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nacre_object::{
    Error, ErrorKind, IoHeader, ObjectId, ObjectStat, Op, Reply, Request, Result, SnapshotName,
    Stack, Store,
};
use nacre_route::{Destination, FastHashSet, ObjectMatch, RuleId, RuleTable};
use tokio::sync::Semaphore;

pub(super) use self::sweeper::run as sweep;
pub(super) use self::used_names::UsedNames;

use super::NodeSwitch;
use super::turns::Turns;

/// How many copies are made at the same time.
const COPIES_AT_ONCE: usize = 8;
/// How many objects the switch remembers whose state it need not keep again.
const MAX_KNOWN: usize = 65_536;

/// What the switch knows about the states that it keeps.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Objects whose state is kept under a name already.
    known: Mutex<FastHashSet<(ObjectId, SnapshotName)>>,
    turns: Arc<Turns>,
    /// Limits the copies that are made at the same time. Each has a piece of its object in memory.
    copying: Semaphore,
    /// Whether there may be copies that no rule names: after a start, and when rules have lost names.
    is_sweep_due: AtomicBool,
}

impl Default for Snapshots {
    fn default() -> Self {
        let (known, turns) = (Mutex::default(), Arc::default());
        let copying = Semaphore::new(COPIES_AT_ONCE);
        Self { known, turns, copying, is_sweep_due: AtomicBool::new(true) }
    }
}

impl Snapshots {
    fn known(&self) -> MutexGuard<'_, FastHashSet<(ObjectId, SnapshotName)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The switch has the rules `after` from now on, and had the rules `before`.
    pub fn note_rules(&self, before: &SnapshotRules, after: &SnapshotRules) {
        self.known().clear();
        if before.has_more_than(after) {
            self.is_sweep_due.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the state of an object is kept under the newest name already.
    fn knows(&self, object: &ObjectId, kept: &KeptSnapshots) -> bool {
        let newest = kept.names.last().cloned().map(|newest| (object.clone(), newest));
        newest.is_some_and(|newest| self.known().contains(&newest))
    }

    fn note(&self, object: &ObjectId, name: &SnapshotName) {
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert((object.clone(), name.clone()));
    }
}

/// The rule that keeps snapshots of an object.
#[derive(Debug, Clone)]
pub(super) struct KeptSnapshots {
    rule: RuleId,
    /// The newest is the last.
    names: Vec<SnapshotName>,
}

/// What is known of an object at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptState {
    Absent,
    /// The engine has a snapshot of the object.
    InEngine,
    /// There is a copy of the object, which had this `stat`.
    Copied(ObjectStat),
}

/// What is kept of an object, by name.
#[derive(Debug, Default)]
struct KnownStates(BTreeMap<SnapshotName, KeptState>);

impl KnownStates {
    fn at(&self, name: &SnapshotName) -> Option<KeptState> {
        self.0.get(name).copied()
    }

    /// What is kept under names that the rule does not have any more.
    fn former<'a>(
        &'a self,
        kept: &'a KeptSnapshots,
    ) -> impl Iterator<Item = (&'a SnapshotName, KeptState)> {
        let all = self.0.iter().filter(move |(name, _)| !kept.names.contains(name));
        all.map(|(name, state)| (name, *state))
    }
}

/// Whether a request may change the object, or create it.
fn changes(request: &Request) -> bool {
    let keeps = |op: &Op| matches!(op, Op::SnapshotCreate { .. } | Op::SnapshotRemove { .. });
    request.ops.iter().any(|op| op.is_write() && !keeps(op))
}

/// The installed rules that keep snapshots.
#[derive(Debug, Default)]
pub(super) struct SnapshotRules(Vec<(ObjectMatch, KeptSnapshots)>);

impl SnapshotRules {
    /// Those of a table.
    pub fn of(table: &RuleTable) -> Self {
        let kept = table.rules().filter_map(|(rule, one)| match &one.destination {
            Destination::Snapshots(names) => {
                let kept = KeptSnapshots { rule, names: names.clone() };
                Some((one.header.object.clone(), kept))
            }
            _ => None,
        });
        Self(kept.collect())
    }

    /// The rule that keeps snapshots of an object, whatever other rules decide about its IO.
    pub fn about(&self, object: &ObjectId) -> Option<&KeptSnapshots> {
        self.0.iter().find(|(objects, _)| objects.matches(object)).map(|(_, kept)| kept)
    }

    /// Whether a rule keeps the state of an object under a name.
    fn names(&self, object: &ObjectId, name: &SnapshotName) -> bool {
        self.about(object).is_some_and(|kept| kept.names.contains(name))
    }

    /// Whether these rules have a name that others lack.
    fn has_more_than(&self, others: &Self) -> bool {
        self.0.iter().any(|(objects, kept)| {
            let other = others.0.iter().find(|(other, _)| other == objects);
            kept.names.iter().any(|name| !other.is_some_and(|(_, kept)| kept.names.contains(name)))
        })
    }
}

impl NodeSwitch {
    /// Whether a request must be an IO of the pure switch about the whole object, because a rule keeps
    /// snapshots of it.
    pub(super) fn concerns_snapshots(&self, request: &Request) -> bool {
        self.is_kept(&request.header.object)
            && (request.header.snapshot.is_some() || changes(request))
    }

    /// Runs a request at the home of its object, whose bytes are all there. If a rule keeps snapshots
    /// of the object, keeps its state first, or reads it at a snapshot.
    ///
    /// # Errors
    /// The errors of the request; `Exhausted` if the object has no room for a snapshot, or is too large
    /// to be copied.
    pub(super) async fn run_with_snapshots(&self, next: &Stack, request: Request) -> Result<Reply> {
        let kept = {
            let core = self.core();
            core.kept.about(&request.header.object).cloned()
        };
        let Some(kept) = kept else {
            return next.submit(request).await;
        };
        let turns = &self.snapshots().turns;
        match request.header.snapshot.clone() {
            Some(at) => {
                let _turn = turns.wait(&request.header.object).await;
                self.read_at(next, request, &kept, &at).await
            }
            None if changes(&request) && !self.snapshots().knows(&request.header.object, &kept) => {
                let _turn = turns.wait(&request.header.object).await;
                self.keep(next, &request.header, &kept).await?;
                next.submit(request).await
            }
            None => next.submit(request).await,
        }
    }

    /// Keeps the state of an object under the newest name, unless it is kept already. The caller has the
    /// turn of the object.
    async fn keep(&self, next: &Stack, header: &IoHeader, kept: &KeptSnapshots) -> Result<()> {
        let (object, Some(newest)) = (&header.object, kept.names.last()) else { return Ok(()) };
        let known = self.known_states(next, header).await?;
        if known.at(newest).is_none() {
            self.core().note_decided(kept.rule);
            self.check_has_bytes(header).await?;
            let has_copies = self.locations().rados().is_some();
            let keeping = match has_copies {
                true => self.keep_copy(header, newest).await,
                false => self.keep_in_engine(next, header, newest).await,
            };
            keeping.map_err(|error| cannot_keep(error, object, has_copies))?;
            self.drop_former(next, header, kept, &known).await;
        }
        self.snapshots().note(object, newest);
        Ok(())
    }

    /// Drops what is kept of an object under names that the rule does not have any more. If something
    /// cannot be dropped, the first change after the next name was put tries again.
    async fn drop_former(
        &self,
        next: &Stack,
        header: &IoHeader,
        kept: &KeptSnapshots,
        known: &KnownStates,
    ) {
        for (name, state) in known.former(kept) {
            let dropped = match state {
                KeptState::InEngine => self.drop_in_engine(next, header, name).await,
                KeptState::Copied(_) => self.drop_copy_and_note(&header.object, name).await,
                KeptState::Absent => {
                    self.drop_notes(&header.object, std::slice::from_ref(name)).await
                }
            };
            // It is dropped later.
            drop(dropped);
        }
    }

    /// What is kept of an object: the snapshots in the engine, and what the notes say.
    async fn known_states(&self, next: &Stack, header: &IoHeader) -> Result<KnownStates> {
        let mut known = self.noted_states(&header.object).await?;
        if self.locations().rados().is_none() {
            self.add_states_in_engine(next, header, &mut known).await?;
        }
        Ok(known)
    }

    /// Reads an object as it was when the name was put.
    async fn read_at(
        &self,
        next: &Stack,
        request: Request,
        kept: &KeptSnapshots,
        at: &SnapshotName,
    ) -> Result<Reply> {
        let from = kept.names.iter().position(|name| name == at);
        let Some(from) = from.filter(|_| !request.ops.iter().any(Op::is_write)) else {
            return next.submit(request).await;
        };
        self.core().note_decided(kept.rule);
        let object = &request.header.object;
        let header = IoHeader { snapshot: None, ..request.header.clone() };
        let known = self.known_states(next, &header).await?;
        let first = kept.names[from..].iter().find_map(|name| Some((name, known.at(name)?)));
        match first {
            Some((_, KeptState::Absent)) => {
                let text = format!("the object did not exist when the snapshot {at} was made");
                Err(Error::not_found(text).on(object))
            }
            Some((name, KeptState::InEngine)) => {
                let snapshot = Some(in_engine::stored_name(name)?);
                let header = IoHeader { snapshot, ..header };
                next.submit(Request { header, ops: request.ops }).await
            }
            Some((name, KeptState::Copied(stat))) => {
                self.read_kept_copy(&header, request.ops, name, stat).await
            }
            None => next.submit(Request { header, ops: request.ops }).await,
        }
    }
}

/// The error of a change before which the state of its object cannot be kept.
fn cannot_keep(error: Error, object: &ObjectId, has_copies: bool) -> Error {
    if error.kind() != ErrorKind::Exhausted {
        return error;
    }
    let text = format!(
        "a rule keeps a snapshot of this object, and it cannot be made: {}",
        error.message()
    );
    Error::exhausted(text).on(object).hint(match has_copies {
        true => "make the object smaller, or take the newest name out of the rule: nacre route put",
        false => "remove snapshots of the object: nacre object snapshot rm",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(all: &[(&str, &[&str])]) -> SnapshotRules {
        let rule = |(number, (objects, names)): (usize, &(&str, &[&str]))| {
            let names = names.iter().map(|name| name.parse().unwrap()).collect();
            let kept = KeptSnapshots { rule: RuleId(number as i64), names };
            (ObjectMatch::parse(objects).unwrap(), kept)
        };
        SnapshotRules(all.iter().enumerate().map(rule).collect())
    }

    #[test]
    fn a_sweep_is_due_after_a_start_and_when_rules_have_lost_a_name() {
        let snapshots = Snapshots::default();
        let take = || snapshots.is_sweep_due.swap(false, Ordering::Relaxed);
        assert!(take());
        let none = rules(&[]);
        let monday = rules(&[("data/a*", &["monday"])]);
        let both = rules(&[("data/a*", &["monday", "tuesday"]), ("data/b*", &["friday"])]);
        let tuesday = rules(&[("data/a*", &["tuesday"]), ("data/b*", &["friday"])]);
        for (before, after, is_due) in [
            (&none, &monday, false),
            (&monday, &both, false),
            (&both, &both, false),
            (&both, &tuesday, true),
            (&tuesday, &monday, true),
            (&monday, &none, true),
        ] {
            snapshots.note_rules(before, after);
            assert_eq!(take(), is_due, "{before:?} {after:?}");
        }
    }
}
