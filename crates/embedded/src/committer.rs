//! The committer: the thread that makes groups durable, visible and answered, in that order.
//!
//! It takes all that waits, writes and syncs it as one group, applies the group to the tables in
//! one step and sends the answers, while the shards run the next transactions and fill the next
//! group. Requests thus wait for the sync they need and for no other, shards wait for none, and the
//! more there is to do the more each sync carries.
//!
//! **Invariants:** the tables are told after the sync, never before. Answers are sent after the
//! tables were told, so whoever was answered reads what it wrote. After a failure nothing is
//! applied any more and everything held is answered with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nacre_object::{Result, WatchEvent};

use crate::batch::{Batch, LiveBytes};
use crate::commit::{Commit, Held, Recorded};
use crate::core::{Core, panic_text};
use crate::journal::Group;
use crate::trail::Trails;

/// The committer, owned by its thread.
pub(crate) struct Committer {
    core: Arc<Core>,
    /// Of each shard.
    live: Vec<LiveBytes>,
}

impl Committer {
    /// Of an engine whose shards refer to so many bytes of each segment.
    pub fn new(core: Arc<Core>, live: Vec<LiveBytes>) -> Self {
        Self { core, live }
    }

    /// Works until the journal is closed and all that waits is done.
    pub fn run(mut self) {
        let core = Arc::clone(&self.core);
        while let Some((groups, commit)) = core.journal.take() {
            // A panic of the tables must not take the process down; requests dropped by it are
            // answered by their channel closing.
            let work = AssertUnwindSafe(|| self.round(groups, commit));
            if let Err(panic) = catch_unwind(work) {
                core.health.poison(format!("the committer panicked: {}", panic_text(&*panic)));
            }
        }
    }

    fn round(&mut self, mut groups: Vec<Group>, Commit { recorded, mut held }: Commit) {
        let mut trails = Trails::of(&mut held);
        trails.step("gather");
        let result = self.commit(&mut groups, recorded, &mut trails);
        if result.is_ok() {
            self.core.journal.note_applied(groups);
        }
        for held in held {
            self.answer(held, &result);
        }
        if self.core.is_checkpoint_due() {
            self.core.upkeep.ask();
        }
    }

    fn commit(
        &mut self,
        groups: &mut [Group],
        recorded: Vec<Recorded>,
        trails: &mut Trails<'_>,
    ) -> Result<()> {
        let core = Arc::clone(&self.core);
        core.health.check()?;
        trails.synced(&core.journal.write(groups)?);
        self.apply(recorded).inspect_err(|error| {
            core.health.poison(format!("the tables could not be written: {error}"));
        })?;
        trails.step("tables");
        Ok(())
    }

    /// Applies the changes of all shards in one step.
    fn apply(&mut self, recorded: Vec<Recorded>) -> Result<()> {
        if recorded.is_empty() {
            return Ok(());
        }
        let mut batches: Vec<Batch> = self.live.iter().map(|_| Batch::default()).collect();
        let mut pins = Vec::with_capacity(recorded.len());
        for Recorded { id, changes, pin } in recorded {
            batches[usize::from(id.shard)].absorb(id, &changes);
            pins.push(pin);
        }
        let leaves_garbage = batches.iter().any(Batch::leaves_garbage);
        Batch::apply_all(batches, &self.core.tables, &self.core.segments, &mut self.live)?;
        drop(pins);
        if leaves_garbage {
            self.core.upkeep.ask();
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
            (Held::Reply { answer, .. }, Some(error)) => {
                self.core.counters.failures.add(1);
                answer.send(Err(error));
            }
            // Counted by its shard.
            (Held::Failure { answer, error }, failed) => answer.send(Err(failed.unwrap_or(error))),
            (Held::Reclaimed { reply, is_gone }, failed) => {
                let _ = reply.send(failed.map_or(Ok(is_gone), Err));
            }
            (Held::Relocated { reply, bytes }, failed) => {
                let _ = reply.send(failed.map_or(Ok(bytes), Err));
            }
        }
    }
}
