//! The applier: a thread that writes the changes of synced groups to the tables while the committer
//! syncs the next group.
//!
//! **Invariants:**
//! - Groups are applied in order, each wholly or not at all, and only after they are synced.
//! - All groups that wait are applied in one step, so a backlog makes each change cheaper.
//! - After a failed sync, groups that were synced before it are still applied: clients got replies
//!   for them, and reads go on.
//! - After a failure of the tables nothing is applied.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use nacre_object::Result;

use crate::core::{Core, panic_text};
use crate::journal::segment_table::RecordPin;
use crate::transaction::batch::{Batch, LiveBytes};
use crate::transaction::commit::{PendingUpkeepReply, Recorded};

/// The number of groups that may wait for the applier; with more, the committer waits. So many keep
/// the committer busy while a flush ends, which stops the tables for some milliseconds.
const MAX_WAITING: usize = 16;

/// Changes that are synced and acknowledged, and not in the tables yet.
#[derive(Debug, Default)]
pub(crate) struct Synced {
    /// The last group, if there is one. It is `None` if only requests that changed nothing waited.
    pub last_group: Option<u64>,
    /// In the order of their records.
    pub recorded: Vec<Recorded>,
    /// Answered once this is in the tables.
    pub upkeeps: Vec<PendingUpkeepReply>,
}

impl Synced {
    fn append(&mut self, mut later: Self) {
        self.last_group = later.last_group.or(self.last_group);
        self.recorded.append(&mut later.recorded);
        self.upkeeps.append(&mut later.upkeeps);
    }
}

/// Hands synced groups to the applier's thread. When this is dropped, the thread applies the
/// remaining groups and ends.
#[derive(Debug)]
pub(crate) struct Applying {
    queue: Option<SyncSender<Synced>>,
    thread: Option<JoinHandle<()>>,
}

impl Applying {
    /// Starts the thread. `live` has, for each shard, how many bytes of each segment its entries
    /// refer to.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn start(core: Arc<Core>, live: Vec<LiveBytes>) -> std::io::Result<Self> {
        let (queue, synced) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new()
            .name("nacre-apply".into())
            .spawn(move || Applier { core, live, has_failed: false }.run(&synced))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues a synced group for the applier. Waits while too many groups are queued.
    pub fn hand_over(&self, synced: Synced) {
        // The thread catches panics, so it runs until `self` is dropped.
        let sent = self.queue.as_ref().map(|queue| queue.send(synced));
        debug_assert!(matches!(sent, Some(Ok(()))));
    }
}

impl Drop for Applying {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The applier, owned by its thread.
struct Applier {
    core: Arc<Core>,
    /// For each shard, how many bytes of each segment its entries refer to.
    live: Vec<LiveBytes>,
    has_failed: bool,
}

impl Applier {
    fn run(mut self, queue: &Receiver<Synced>) {
        while let Ok(mut synced) = queue.recv() {
            queue.try_iter().for_each(|later| synced.append(later));
            // A panic in the tables' code must not end the process. It drops the reply channels of
            // upkeep's requests, so upkeep gets an error.
            let work = AssertUnwindSafe(|| self.round(synced));
            if let Err(panic) = catch_unwind(work) {
                self.fail(format!("the tables panicked: {}", panic_text(&*panic)));
            }
        }
    }

    fn fail(&mut self, reason: String) {
        self.has_failed = true;
        self.core.health.poison(reason);
        self.core.read_barrier.note_stuck();
    }

    fn round(&mut self, Synced { last_group, recorded, upkeeps }: Synced) {
        let applied = if self.has_failed { self.core.health.check() } else { self.apply(recorded) };
        match &applied {
            Ok(()) => {
                if let Some(group) = last_group {
                    self.core.read_barrier.note_applied(group);
                    self.core.journal.note_applied(group);
                }
            }
            Err(error) => self.fail(format!("the tables could not be written: {error}")),
        }
        for held in upkeeps {
            held.answer(&applied);
        }
        if applied.is_ok()
            && self.core.is_seal_due()
            && let Err(error) = self.core.seal()
        {
            self.fail(format!("the tables could not be read: {error}"));
        }
    }

    /// Applies the changes of all shards in one step.
    fn apply(&mut self, recorded: Vec<Recorded>) -> Result<()> {
        if recorded.is_empty() {
            return Ok(());
        }
        self.core.tables.wait_for_room()?;
        let started = self.core.clock.monotonic();
        let mut batches: Vec<Batch> = self.live.iter().map(|_| Batch::default()).collect();
        let mut pins = Vec::with_capacity(recorded.len());
        for Recorded { id, changes, pin } in recorded {
            batches[usize::from(id.shard)].absorb(id, changes);
            pins.push(pin);
        }
        let leaves_garbage = batches.iter().any(Batch::leaves_garbage);
        Batch::apply_all(batches, &self.core.tables, &self.core.segments, &mut self.live);
        pins.into_iter().for_each(RecordPin::let_go);
        if leaves_garbage {
            self.core.upkeep.ask();
        }
        let took = self.core.clock.monotonic().saturating_sub(started);
        self.core.counters.apply_time.record_duration(took);
        Ok(())
    }
}
