//! Keeps copy-on-write snapshots of all objects of a prefix, if a rule has the destination
//! `snapshots NAME,NAME…`. The newest name is the last. [`pieces`](super::pieces) calls this module
//! for each request that changes such an object, or reads it at one of these names.
//!
//! 1. Before the first change of an object after the newest name was put, the home makes a snapshot
//!    of the object ([`stored_name`]). If the object does not exist, the home notes in an object of its
//!    own, the *marker*, that it was absent.
//! 2. A read at a name looks at this name and the later ones, the oldest first. At the first of them for
//!    which the object has a snapshot, the read goes there. At the first for which the marker has a
//!    note, there was no object. Otherwise the object has not changed since, so the read gets its
//!    present state.
//!
//! # Invariants
//!
//! - All these requests are IO of the pure switch about the whole object, so none of them runs while rules
//!   change.
//! - Reads at a name, and changes before which the state is kept, run one at a time for each object. No
//!   later change has anything to keep.
//! - No request changes an object before its state, or that it is absent, is durable under the newest
//!   name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nacre_object::{
    Error, ErrorKind, IoHeader, MapEntry, ObjectId, Op, OpResult, Reply, Request, Result,
    SnapshotName, Stack, Store,
};
use nacre_route::limits::MAX_SNAPSHOT_NAMES;
use nacre_route::{Destination, FastHashSet, ObjectMatch, RuleId, RuleTable};

use super::NodeSwitch;
use super::background::background;
use super::turns::Turns;

/// What the stored names begin with.
const KEPT: &str = "kept-";
/// How many objects the switch remembers whose state it need not keep again.
const MAX_KNOWN: usize = 65_536;
/// More notes than a marker has: one for each name of the rule, and one that is dropped next.
const MAX_NOTES: u32 = 2 * MAX_SNAPSHOT_NAMES as u32;

/// Objects whose state is kept under a name already.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    known: Mutex<FastHashSet<(ObjectId, SnapshotName)>>,
    turns: Arc<Turns>,
}

impl Snapshots {
    fn known(&self) -> MutexGuard<'_, FastHashSet<(ObjectId, SnapshotName)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The switch has other rules from now on.
    pub fn note_rules(&self) {
        self.known().clear();
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

/// What is kept of an object.
struct KnownStates {
    snapshots: Vec<SnapshotName>,
    /// The names at which the object was absent.
    absent_at: Vec<Bytes>,
}

impl KnownStates {
    fn has(&self, name: &SnapshotName) -> Result<bool> {
        Ok(self.snapshots.contains(&stored_name(name)?))
    }

    fn is_absent_at(&self, name: &SnapshotName) -> bool {
        self.absent_at.iter().any(|key| key == name.as_str().as_bytes())
    }
}

/// The name under which the engine has the snapshot of an object.
fn stored_name(name: &SnapshotName) -> Result<SnapshotName> {
    SnapshotName::new(format!("{KEPT}{name}"))
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
}

impl NodeSwitch {
    /// Whether a request must be an IO of the pure switch about the whole object, because a rule keeps
    /// snapshots of it.
    pub(super) fn concerns_snapshots(&self, request: &Request) -> bool {
        self.is_kept(&request.header.object)
            && (request.header.snapshot.is_some() || changes(request))
    }

    /// Refuses users' snapshots with the names of those that rules keep.
    ///
    /// # Errors
    /// `Invalid`.
    pub(super) fn check_kept_names(&self, request: &Request) -> Result<()> {
        let takes_name = |op: &Op| match op {
            Op::SnapshotCreate { snapshot } | Op::SnapshotRemove { snapshot } => {
                snapshot.as_str().starts_with(KEPT)
            }
            _ => false,
        };
        if !request.ops.iter().any(takes_name) || !self.is_kept(&request.header.object) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "rules keep the snapshots of this object that begin with {KEPT}"
        ))
        .on(&request.header.object)
        .hint("choose another name; to drop a kept snapshot, take its name out of the rule first"))
    }

    /// Runs a request at the home of its object, whose bytes are all there. If a rule keeps snapshots
    /// of the object, keeps its state first, or reads it at a snapshot.
    ///
    /// # Errors
    /// The errors of the request; `Exhausted` if the object has no room for a snapshot.
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
        if known.is_absent_at(newest) || known.has(newest)? {
            self.snapshots().note(object, newest);
            return Ok(());
        }
        self.core().note_decided(kept.rule);
        let take = Op::SnapshotCreate { snapshot: stored_name(newest)? };
        let taken = next.submit(Request { header: header.clone(), ops: vec![take] }).await;
        match taken.map_err(|error| (error.kind(), error)) {
            Ok(_) => self.drop_former(next, header, kept, &known).await,
            Err((ErrorKind::NotFound, _)) => self.mark_absent(object, kept, known).await?,
            Err((ErrorKind::Exhausted, cause)) => {
                let text = format!(
                    "a rule keeps a snapshot of this object, and it cannot be made: {}",
                    cause.message()
                );
                return Err(Error::exhausted(text)
                    .on(object)
                    .hint("remove snapshots of the object: nacre object snapshot rm"));
            }
            Err((_, error)) => return Err(error),
        }
        self.snapshots().note(object, newest);
        Ok(())
    }

    /// Drops the kept snapshots of an object that the rule does not name any more. If one cannot be
    /// dropped, the first change after the next name was put tries again.
    async fn drop_former(
        &self,
        next: &Stack,
        header: &IoHeader,
        kept: &KeptSnapshots,
        known: &KnownStates,
    ) {
        let named: Vec<_> = kept.names.iter().filter_map(|name| stored_name(name).ok()).collect();
        let is_former =
            |name: &&SnapshotName| name.as_str().starts_with(KEPT) && !named.contains(name);
        for snapshot in known.snapshots.iter().filter(is_former).cloned() {
            let ops = vec![Op::SnapshotRemove { snapshot }];
            let _ = next.submit(Request { header: header.clone(), ops }).await;
        }
    }

    /// Notes that an object is absent at the newest name, and drops notes at names that the rule does
    /// not have any more.
    async fn mark_absent(
        &self,
        object: &ObjectId,
        kept: &KeptSnapshots,
        known: KnownStates,
    ) -> Result<()> {
        let is_named = |key: &Bytes| kept.names.iter().any(|name| name.as_str().as_bytes() == key);
        let former: Vec<_> = known.absent_at.into_iter().filter(|key| !is_named(key)).collect();
        let newest = kept.names.last().map(|name| name.as_str()).unwrap_or_default();
        let key = Bytes::copy_from_slice(newest.as_bytes());
        let marker = self.locations().absence_marker(object)?;
        let note = Op::MapSet { entries: vec![MapEntry { key, value: Bytes::new() }] };
        let mut request = background(marker, note)?;
        if !former.is_empty() {
            request.ops.push(Op::MapRemove { keys: former });
        }
        self.base().submit(request).await.map(drop)
    }

    /// What is kept of an object: its snapshots, and the notes of its marker.
    async fn known_states(&self, next: &Stack, header: &IoHeader) -> Result<KnownStates> {
        let object = &header.object;
        let list = Request { header: header.clone(), ops: vec![Op::SnapshotList] };
        let snapshots = match next.submit(list).await?.results.into_iter().next() {
            Some(OpResult::Snapshots(all)) => all,
            _ => return Err(Error::corrupt("the reply to a list has no snapshots").on(object)),
        };
        let marker = self.locations().absence_marker(object)?;
        let (after, prefix, limit) = (Bytes::new(), Bytes::new(), MAX_NOTES);
        let read = background(marker, Op::MapRange { after, prefix, limit })?;
        let absent_at = match self.base().submit(read).await {
            Err(error) if error.kind() == ErrorKind::NotFound => vec![],
            read => match read?.results.into_iter().next() {
                Some(OpResult::Range(range)) => {
                    range.entries.into_iter().map(|entry| entry.key).collect()
                }
                _ => {
                    return Err(
                        Error::corrupt("the reply to a read of keys has no keys").on(object)
                    );
                }
            },
        };
        Ok(KnownStates { snapshots, absent_at })
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
        let names = &kept.names[from..];
        let object = &request.header.object;
        let header = IoHeader { snapshot: None, ..request.header.clone() };
        let known = self.known_states(next, &header).await?;
        for name in names {
            if known.has(name)? {
                let header = IoHeader { snapshot: Some(stored_name(name)?), ..header };
                return next.submit(Request { header, ops: request.ops }).await;
            }
            if known.is_absent_at(name) {
                let text = format!("the object did not exist when the snapshot {at} was made");
                return Err(Error::not_found(text).on(object));
            }
        }
        next.submit(Request { header, ops: request.ops }).await
    }
}
