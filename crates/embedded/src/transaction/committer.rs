//! The committer: a thread that makes groups of journal records durable and sends their replies.
//!
//! The committer takes all waiting records, writes and syncs them as one group, and sends the
//! replies. Then it hands the group to the applier, which writes the changes to the tables.
//! Meanwhile the shards run the next transactions and fill the next group. So a request waits only
//! for the sync it needs, and shards wait for none. The busier the engine, the more requests share
//! a sync.
//!
//! **Invariants:**
//! - The replies of a group are sent after its sync and before the applier gets it.
//! - A read waits if its object has a change that is acknowledged and not in the tables yet
//!   ([`crate::transaction::read_barrier`]).
//! - After a failed write or sync nothing more is written, and every waiting request gets that
//!   error.

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
            // If a panic drops requests, their callers see closed channels.
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
            // If no request changed anything, the tables get nothing.
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

    /// Sends a reply to a client. Returns a reply to the upkeep thread, because that reply is sent
    /// only when the changes are in the tables.
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
            // The shard has counted this failure already.
            (PendingReply::Failure { answer, error }, failed) => {
                answer.send(Err(failed.unwrap_or(error)))
            }
            (PendingReply::Upkeep(held), _) => return Some(held),
        }
        None
    }
}
