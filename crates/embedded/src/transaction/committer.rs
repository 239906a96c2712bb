//! The committer: a thread that makes groups durable and sends their replies.
//!
//! It takes all waiting records, writes and syncs them as one group, sends the replies, and hands
//! the group to the applier, which writes it to the tables. Meanwhile the shards run the next
//! transactions and fill the next group. So a request waits only for the sync it needs, and shards
//! wait for none. The busier the engine, the more requests share a sync.
//!
//! **Invariants:**
//! - The replies of a group are sent after its sync. Then the group is handed to the applier.
//! - A read of an object whose change is answered but not applied waits
//!   ([`crate::transaction::read_barrier`]).
//! - After a failure nothing more is written, and every held reply becomes that error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nacre_object::{Result, WatchEvent};

use crate::core::{Core, hash_of, panic_text};
use crate::journal::Group;
use crate::transaction::applier::{Applying, Synced};
use crate::transaction::commit::{Commit, PendingReply, PendingUpkeepReply};
use crate::transaction::trail::Trails;

/// The committer, owned by its thread.
pub(crate) struct Committer {
    core: Arc<Core>,
    applying: Applying,
}

impl Committer {
    pub fn new(core: Arc<Core>, applying: Applying) -> Self {
        Self { core, applying }
    }

    /// Works until the journal is closed, all waiting groups are synced, and the tables have them.
    pub fn run(self) {
        let core = Arc::clone(&self.core);
        while let Some((groups, commit)) = core.journal.take() {
            // Requests dropped by a panic are answered by their channel closing.
            let work = AssertUnwindSafe(|| self.round(groups, commit));
            if let Err(panic) = catch_unwind(work) {
                core.health.poison(format!("the committer panicked: {}", panic_text(&*panic)));
                core.read_barrier.note_stuck();
            }
        }
    }

    fn round(&self, mut groups: Vec<Group>, Commit { recorded, mut held }: Commit) {
        let synced = self.sync(&mut groups, &mut held);
        let last_group = groups.last().map(Group::number);
        self.core.journal.reuse(groups);
        if let (Ok(()), Some(group)) = (&synced, last_group) {
            let changed = held.iter().filter_map(PendingReply::object).map(hash_of);
            self.core.read_barrier.note_answered(group, changed);
        }
        let upkeeps: Vec<_> =
            held.into_iter().filter_map(|held| self.answer(held, &synced)).collect();
        match synced {
            // Answers to requests that changed nothing are no news for the tables.
            Ok(()) if last_group.is_none() && upkeeps.is_empty() => {}
            Ok(()) => self.applying.hand_over(Synced { last_group, recorded, upkeeps }),
            failed => upkeeps.into_iter().for_each(|held| held.answer(&failed)),
        }
    }

    fn sync(&self, groups: &mut [Group], held: &mut [PendingReply]) -> Result<()> {
        let mut trails = Trails::of(held);
        trails.step("gather");
        self.core.health.check()?;
        trails.synced(&self.core.journal.write(groups)?);
        Ok(())
    }

    /// Answers a request; gives back what waits for the tables.
    fn answer(&self, held: PendingReply, synced: &Result<()>) -> Option<PendingUpkeepReply> {
        let failed = synced.as_ref().err().cloned();
        match (held, failed) {
            (PendingReply::Reply { answer, reply, object, is_changed }, None) => {
                self.core.counters.transactions.add(1);
                if is_changed {
                    let event = WatchEvent::Changed { version: reply.version };
                    self.core.watchers.tell(&object, &event);
                }
                answer.send(Ok(reply));
            }
            (PendingReply::Reply { answer, .. }, Some(error)) => {
                self.core.counters.failures.add(1);
                answer.send(Err(error));
            }
            // Counted by its shard.
            (PendingReply::Failure { answer, error }, failed) => {
                answer.send(Err(failed.unwrap_or(error)))
            }
            (PendingReply::Upkeep(held), _) => return Some(held),
        }
        None
    }
}
