//! A shard: one thread that runs the transactions of its objects, in order.
//!
//! It takes all that is queued, runs it over the tables and what the batch has changed so far,
//! appends a record a transaction to the journal, waits until the last is synced, applies them all
//! to the tables and only then answers. Nothing needs a lock, and a class runs alone on its object.
//!
//! **Invariants:** tables hold only what is synced. A reply, also one that says no, waits for the
//! sync if it depends on something unsynced; otherwise it is sent at once. A transaction that fails
//! leaves nothing behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nacre_object::{Error, ObjectId, Reply, Request, Result, WatchEvent};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::batch::{Batch, LiveBytes, Progress};
use crate::change_set::ChangeSet;
use crate::core::{Core, panic_text};
use crate::journal::record::{Draft, RecordId};
use crate::journal::segment_table::Pin;
use crate::layers::Layers;
use crate::queue::Work;
use crate::tables::TableSnapshot;
use crate::view::{Mode, Outcome, Transaction};

/// Bytes of records a batch takes before it is committed: what the shard holds in memory beyond
/// the requests themselves.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A queue's buffer with room for more works than this is given back after a burst.
const MAX_KEPT_WORKS: usize = 1024;

/// A shard, owned by its thread.
pub(crate) struct Shard {
    pub(crate) core: Arc<Core>,
    pub(crate) id: u16,
    progress: Progress,
    live: LiveBytes,
    draft: Draft,
}

/// A batch being run.
pub(crate) struct Running {
    /// Taken before the snapshot, held until the batch is in the tables.
    _pin: Pin,
    pub(crate) tables: TableSnapshot,
    pub(crate) batch: Batch,
    bytes: usize,
    /// The last group that holds a record of the batch.
    group: Option<u64>,
    held: Vec<Held>,
}

/// An answer that waits for the batch to be synced.
enum Held {
    Reply { answer: Answer, reply: Reply, changed: Option<ObjectId> },
    Failure { answer: Answer, error: Error },
    Reclaimed { reply: oneshot::Sender<Result<bool>>, is_gone: bool },
    Relocated { reply: oneshot::Sender<Result<u64>>, bytes: u64 },
}

/// To whom an answer goes.
struct Answer {
    to: oneshot::Sender<Result<Reply>>,
    /// Given back once answered.
    _permit: OwnedSemaphorePermit,
}

impl Answer {
    fn send(self, result: Result<Reply>) {
        // Whoever asked may have gone; the transaction stands all the same.
        let _ = self.to.send(result);
    }
}

impl Running {
    fn start(core: &Core) -> Self {
        let _pin = core.segments.pin();
        let tables = core.tables.snapshot();
        Self { _pin, tables, batch: Batch::default(), bytes: 0, group: None, held: Vec::new() }
    }

    pub(crate) fn layers(&self) -> Layers<'_> {
        Layers::new(&self.tables, Some(&self.batch.overlay))
    }
}

impl Shard {
    pub fn new(core: Arc<Core>, id: u16, progress: Progress, live: LiveBytes) -> Self {
        Self { core, id, progress, live, draft: Draft::default() }
    }

    /// Works until the queue is closed and empty.
    pub fn run(mut self) {
        let mut works = Vec::new();
        let core = Arc::clone(&self.core);
        let queue = &core.queues[usize::from(self.id)];
        while queue.take_all(&mut works) {
            let count = works.len();
            // A panic of the tables must not take the process down; requests dropped by it are
            // answered by their channel closing.
            let work = AssertUnwindSafe(|| self.run_all(works.drain(..)));
            if let Err(panic) = catch_unwind(work) {
                core.health.poison(format!("a shard panicked: {}", panic_text(&*panic)));
                works.clear();
            }
            queue.done(count);
            works.shrink_to(MAX_KEPT_WORKS);
        }
    }

    fn run_all(&mut self, works: impl Iterator<Item = Work>) {
        let core = Arc::clone(&self.core);
        let mut running = Running::start(&core);
        for work in works {
            match work {
                Work::Request { request, reply, permit } => {
                    let answer = Answer { to: reply, _permit: permit };
                    self.run_request(&mut running, *request, answer);
                }
                Work::Reclaim { node, reply } => match self.reclaim(&mut running, node) {
                    Ok(is_gone) => running.held.push(Held::Reclaimed { reply, is_gone }),
                    Err(error) => drop(reply.send(Err(error))),
                },
                Work::Relocate { segment, owners, reply } => {
                    match self.relocate(&mut running, segment, &owners) {
                        Ok(bytes) => running.held.push(Held::Relocated { reply, bytes }),
                        Err(error) => drop(reply.send(Err(error))),
                    }
                }
            }
            if running.bytes > MAX_BATCH_BYTES {
                self.commit(running);
                // The next batch must see what has just been applied.
                running = Running::start(&core);
            }
        }
        self.commit(running);
    }

    fn run_request(&mut self, running: &mut Running, request: Request, answer: Answer) {
        match self.run_transaction(running, &request) {
            Ok((reply, must_wait, is_changed)) if must_wait => {
                let changed = is_changed.then_some(request.header.object);
                running.held.push(Held::Reply { answer, reply, changed });
            }
            Ok((reply, ..)) => {
                self.core.counters.reads.add(1);
                answer.send(Ok(reply));
            }
            Err(Failed { error, saw_unsynced }) => {
                self.core.counters.failures.add(1);
                if saw_unsynced {
                    running.held.push(Held::Failure { answer, error });
                } else {
                    answer.send(Err(error));
                }
            }
        }
    }

    /// Runs one transaction; what it changed is in the batch and in the filling group then.
    fn run_transaction(
        &mut self,
        running: &mut Running,
        request: &Request,
    ) -> Result<(Reply, bool, bool), Failed> {
        let core = Arc::clone(&self.core);
        core.health.check()?;
        core.space.admit(&request.ops)?;
        let now_micros = core.clock.now_micros();
        let mode = self.write_mode(now_micros);
        let layers = running.layers();
        let mut transaction =
            Transaction::begin(layers, &core.segments, &request.header.object, mode)?;
        let results = core.run(request, &mut transaction, now_micros);
        let saw_unsynced = transaction.saw_unsynced();
        let results = results.map_err(|error| Failed { error, saw_unsynced })?;
        let Outcome { is_changed, version, changes, next_node, saw_unsynced } =
            transaction.finish();
        let must_wait = is_changed || saw_unsynced || !changes.is_empty();
        self.append(running, changes, next_node).map_err(|error| Failed { error, saw_unsynced })?;
        Ok((Reply { version, results }, must_wait, is_changed))
    }

    pub(crate) fn write_mode(&self, now_micros: u64) -> Mode {
        Mode::Write {
            shard: self.id,
            sequence: self.progress.sequence + 1,
            now_micros,
            next_node: self.progress.next_node,
        }
    }

    /// Appends changes to the journal as one record and adds them to the batch.
    pub(crate) fn append(
        &mut self,
        running: &mut Running,
        mut changes: ChangeSet,
        next_node: u64,
    ) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let id = RecordId { shard: self.id, sequence: self.progress.sequence + 1, next_node };
        self.draft.write(id, &mut changes);
        let place = self.core.journal.append(self.id, &self.draft)?;
        self.draft.settle(&mut changes, place);
        self.progress = Progress { sequence: id.sequence, next_node };
        running.bytes += self.draft.len();
        running.group = Some(place.group);
        running.batch.absorb(id, changes);
        Ok(())
    }

    pub(crate) fn next_node(&self) -> u64 {
        self.progress.next_node
    }

    /// Makes the batch durable, applies it and sends the answers that waited.
    fn commit(&mut self, running: Running) {
        let result = match running.group {
            Some(group) => self.make_durable(group, running.batch),
            None => Ok(()),
        };
        for held in running.held {
            self.answer(held, &result);
        }
    }

    fn make_durable(&mut self, group: u64, batch: Batch) -> Result<()> {
        let core = &self.core;
        core.journal.wait_durable(group)?;
        let leaves_garbage = batch.leaves_garbage();
        batch.apply(self.id, &core.tables, &core.segments, &mut self.live).inspect_err(
            |error| {
                core.health.poison(format!("the tables could not be written: {error}"));
            },
        )?;
        core.journal.mark_applied(self.id);
        if leaves_garbage || core.is_checkpoint_due() {
            core.upkeep.ask();
        }
        Ok(())
    }

    fn answer(&self, held: Held, result: &Result<()>) {
        let failed = result.as_ref().err().cloned();
        match (held, failed) {
            (Held::Reply { answer, reply, changed }, None) => {
                self.core.counters.transactions.add(1);
                if let Some(object) = changed {
                    let event = WatchEvent::Changed { version: reply.version };
                    self.core.watchers.tell(&object, &event);
                }
                answer.send(Ok(reply));
            }
            (Held::Failure { answer, error }, None) => answer.send(Err(error)),
            (Held::Reply { answer, .. } | Held::Failure { answer, .. }, Some(error)) => {
                self.core.counters.failures.add(1);
                answer.send(Err(error));
            }
            (Held::Reclaimed { reply, is_gone }, failed) => {
                let _ = reply.send(failed.map_or(Ok(is_gone), Err));
            }
            (Held::Relocated { reply, bytes }, failed) => {
                let _ = reply.send(failed.map_or(Ok(bytes), Err));
            }
        }
    }
}

/// Why a transaction failed, and whether that depends on something unsynced.
struct Failed {
    error: Error,
    saw_unsynced: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, saw_unsynced: false }
    }
}
