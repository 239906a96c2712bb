//! A shard: runs the transactions of its objects, one after another.
//!
//! A transaction reads the tables and, on top of them, the shard's recent changes. The shard
//! appends one record for each transaction to the journal; the committer syncs it, and the shard
//! does not wait for that. The thread that runs a shard holds its lock
//! ([`crate::transaction::shards`]). So nothing inside needs a lock, and a method runs alone on its
//! object.
//!
//! **Invariants:**
//! - The tables hold only synced data.
//! - A reply that depends on unsynced data waits for the sync, even if it is an error. Any other
//!   reply is sent at once.
//! - A transaction that fails changes nothing.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nacre_object::{Error, Reply, Request, Result};
use nacre_telemetry::Fields;

use crate::core::{Core, panic_text};
use crate::entry::entry_cache::EntryCache;
use crate::entry::gaps::Gaps;
use crate::entry::layers::Layers;
use crate::journal::record::{RecordBuilder, RecordId};
use crate::journal::segment_table::{Pin, RecordPin};
use crate::tables::TableSnapshot;
use crate::transaction::batch::Progress;
use crate::transaction::change_set::ChangeSet;
use crate::transaction::commit::{Answer, PendingReply, Recorded};
use crate::transaction::queue::{Asked, Work};
use crate::transaction::recent_changes::RecentChanges;
use crate::transaction::trail::fields_of;
use crate::view::{Mode, Outcome, Transaction};

/// After a burst of requests, a queue's buffer with room for more works than this is freed.
const MAX_KEPT_WORKS: usize = 1024;

/// A shard.
pub(crate) struct Shard {
    pub(crate) core: Arc<Core>,
    pub(crate) id: u16,
    progress: Progress,
    recent: RecentChanges,
    gaps: RefCell<Gaps>,
    cache: RefCell<EntryCache>,
    builder: RecordBuilder,
}

/// The view of the tables that transactions share which run together.
pub(crate) struct BatchTables {
    /// Taken before the snapshot.
    pin: Pin,
    tables: TableSnapshot,
}

impl Shard {
    pub fn new(core: Arc<Core>, id: u16, progress: Progress) -> Self {
        let (gaps, cache) = (RefCell::new(Gaps::new(id)), RefCell::new(EntryCache::new(id)));
        let (recent, builder) = (RecentChanges::default(), RecordBuilder::default());
        Self { core, id, progress, recent, gaps, cache, builder }
    }

    /// Runs all of `works`, in order.
    pub fn run_all(&mut self, works: &mut Vec<Work>) {
        self.attempt(|shard| {
            let batch = shard.batch_tables();
            for work in works.drain(..) {
                match work {
                    Work::Request(asked) => shard.run_request(&batch, asked),
                    Work::Reclaim { node, reply } => shard.reclaim(&batch, node, reply),
                    Work::Relocate { segment, owners, reply } => {
                        shard.relocate(&batch, segment, &owners, reply);
                    }
                }
            }
        });
        works.shrink_to(MAX_KEPT_WORKS);
    }

    /// Runs one request.
    pub fn run_one(&mut self, asked: Asked) {
        self.attempt(|shard| {
            let batch = shard.batch_tables();
            shard.run_request(&batch, asked);
        });
    }

    /// A panic in the tables' code must not end the process. It drops the reply channels of the
    /// requests that wait, so their callers get an error.
    fn attempt(&mut self, work: impl FnOnce(&mut Self)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&mut *self))) {
            self.core.health.poison(format!("a shard panicked: {}", panic_text(&*panic)));
        }
    }

    fn batch_tables(&mut self) -> BatchTables {
        // Keep this order. `forget` drops recent changes that are in the tables, so the snapshot
        // must be taken later. The pin keeps the journal segments that the snapshot refers to, so
        // it must be taken earlier.
        self.recent.forget(self.core.read_barrier.applied());
        let pin = self.core.segments.pin();
        BatchTables { pin, tables: self.core.tables.snapshot() }
    }

    pub(crate) fn layers<'a>(&'a self, batch: &'a BatchTables) -> Layers<'a> {
        Layers::of_shard(&batch.tables, &self.recent, &self.gaps, &self.cache)
    }

    fn run_request(&mut self, batch: &BatchTables, Asked { request, mut answer }: Asked) {
        answer.trail.step("queue", || Fields::default().with("shard", u64::from(self.id)));
        let result = self.run_transaction(batch, &request);
        answer.trail.step("run", || fields_of(&request));
        match result {
            Ok((reply, outcome)) => self.conclude(batch, *request, answer, reply, outcome),
            Err(Failed { error, saw_unsynced }) => self.fail(answer, error, saw_unsynced),
        }
    }

    fn fail(&self, answer: Answer, error: Error, saw_unsynced: bool) {
        self.core.counters.failures.add(1);
        if saw_unsynced {
            self.core.journal.hold(PendingReply::Failure { answer, error });
        } else {
            answer.send(Err(error));
        }
    }

    fn run_transaction(
        &self,
        batch: &BatchTables,
        request: &Request,
    ) -> Result<(Reply, Outcome), Failed> {
        let core = &self.core;
        core.health.check()?;
        core.space.admit(request)?;
        core.tables.admit()?;
        let now_micros = core.clock.now_micros();
        let (layers, mode) = (self.layers(batch), self.write_mode(now_micros));
        let mut transaction =
            Transaction::begin(layers, &core.segments, &request.header.object, mode)?;
        let results = core.run(request, &mut transaction, now_micros);
        let saw_unsynced = transaction.saw_unsynced();
        let results = results.map_err(|error| Failed { error, saw_unsynced })?;
        let outcome = transaction.finish();
        core.space
            .admit_outcome(request, &outcome)
            .map_err(|error| Failed { error, saw_unsynced })?;
        Ok((Reply { version: outcome.version, results }, outcome))
    }

    /// Appends the changes of a transaction to the journal. If it changed nothing and saw nothing
    /// unsynced, sends the reply at once.
    fn conclude(
        &mut self,
        batch: &BatchTables,
        request: Request,
        answer: Answer,
        reply: Reply,
        outcome: Outcome,
    ) {
        let Outcome { is_changed, changes, next_node, saw_unsynced, .. } = outcome;
        if !is_changed && !saw_unsynced && changes.is_empty() {
            self.core.counters.reads.add(1);
            return answer.send(Ok(reply));
        }
        let held = PendingReply::Reply { answer, reply, object: request.header.object, is_changed };
        if let Err((error, PendingReply::Reply { answer, .. })) =
            self.append(batch, changes, next_node, held)
        {
            self.fail(answer, error, saw_unsynced);
        }
    }

    fn write_mode(&self, now_micros: u64) -> Mode {
        Mode::Write {
            shard: self.id,
            sequence: self.progress.sequence + 1,
            now_micros,
            next_node: self.progress.next_node,
        }
    }

    /// Appends changes to the journal as one record. The reply in `held` is sent once the record is
    /// synced. A reply to upkeep waits until the tables have the changes.
    ///
    /// # Errors
    /// The errors of [`crate::journal::Journal::slot`], each with `held`; nothing is changed then.
    pub(crate) fn append(
        &mut self,
        batch: &BatchTables,
        mut changes: ChangeSet,
        next_node: u64,
        held: PendingReply,
    ) -> Result<(), (Error, PendingReply)> {
        let core = Arc::clone(&self.core);
        if changes.is_empty() {
            core.journal.hold(held);
            return Ok(());
        }
        let id = RecordId { shard: self.id, sequence: self.progress.sequence + 1, next_node };
        self.builder.write(id, &mut changes);
        let slot = match core.journal.slot(self.builder.len()) {
            Ok(slot) => slot,
            Err(error) => return Err((error, held)),
        };
        let group = slot.place().group;
        self.builder.settle(&mut changes, slot.place());
        let changes = Arc::new(changes);
        let pin = RecordPin::of(&batch.pin);
        let recorded = Recorded { id, changes: Arc::clone(&changes), pin };
        slot.fill(&self.builder, recorded, held);
        self.progress = Progress { sequence: id.sequence, next_node };
        self.gaps.get_mut().note(&changes.entries);
        self.cache.get_mut().note(&changes.entries);
        self.recent.add(&changes, group);
        Ok(())
    }

    pub(crate) fn next_node(&self) -> u64 {
        self.progress.next_node
    }
}

/// The error of a failed transaction, and whether it may depend on unsynced data.
struct Failed {
    error: Error,
    saw_unsynced: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, saw_unsynced: false }
    }
}
