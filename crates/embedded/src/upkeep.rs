//! The upkeep thread: checkpoints, emptying what was dropped, giving dead segments back.
//!
//! It decides and asks; what changes objects is done by their shards, one small transaction at a
//! time, so that upkeep never holds more of a shard than a request does.

use std::sync::Arc;
use std::time::Duration;

use nacre_object::{ErrorKind, Result};
use tokio::sync::oneshot;

use crate::batch::Progress;
use crate::core::Core;
use crate::journal::Position;
use crate::key::{self, Key, NodeId};
use crate::manifest::Manifest;
use crate::queue::Work;
use crate::upkeep_signal::Wake;

/// Between looks when nobody asks; an engine that is idle so long is checkpointed.
const IDLE_AFTER: Duration = Duration::from_millis(500);
/// Nodes emptied before the rest of the upkeep gets its turn.
const NODES_AT_ONCE: usize = 64;
/// Bytes moved by one transaction.
const RELOCATE_BYTES: u64 = 512 * 1024;
/// A segment is emptied when less than this share of it is referred to: at worst a store takes
/// twice what it holds, and what is moved was mostly dead around it.
const SPARSE_SHARE: f64 = 0.5;
/// The same when room is short; not higher, as moving takes room before it gives some.
const SPARSE_SHARE_WHEN_LOW: f64 = 0.75;

/// The thread's state.
pub(crate) struct Upkeep {
    core: Arc<Core>,
    checkpoint: Position,
    used_at_last_look: u64,
}

impl Upkeep {
    /// Of an engine whose last checkpoint is this.
    pub fn new(core: Arc<Core>, checkpoint: Position) -> Self {
        Self { core, checkpoint, used_at_last_look: 0 }
    }

    /// Works until the engine closes, and comes back for a last checkpoint. Errors end the round;
    /// the next tries again.
    pub fn run(mut self) -> Self {
        loop {
            match self.core.upkeep.wait(IDLE_AFTER) {
                Wake::Closing => return self,
                wake => {
                    // Whatever stops writing for good has poisoned the engine by itself.
                    let round = self.round(wake);
                    // To those who wait for a checkpoint that was not even tried.
                    self.core.upkeep.answer(&round);
                }
            }
        }
    }

    fn round(&mut self, wake: Wake) -> Result<()> {
        self.core.health.check()?;
        let is_quiet = self.is_quiet(wake);
        if self.is_checkpoint_due(wake, is_quiet) {
            let made = self.make_checkpoint();
            self.core.upkeep.answer(&made);
            made?;
        }
        if is_quiet {
            self.core.tables.flush()?;
        }
        self.reclaim_garbage()?;
        self.free_dead_segments();
        self.compact()?;
        if self.core.space.is_low() {
            self.core.journal.delete_spares();
        }
        Ok(())
    }

    /// Whether nothing has been written for a while.
    fn is_quiet(&mut self, wake: Wake) -> bool {
        let used = self.core.journal.used_bytes();
        wake == Wake::Idle && used == std::mem::replace(&mut self.used_at_last_look, used)
    }

    /// Also when it is quiet, so that the next start is quick.
    fn is_checkpoint_due(&self, wake: Wake, is_quiet: bool) -> bool {
        let is_due = wake == Wake::CheckpointAsked || self.core.is_checkpoint_due();
        is_due || is_quiet && self.core.journal.backlog_bytes() > 0
    }

    /// Makes the tables durable and notes from where the journal would have to be replayed.
    pub fn make_checkpoint(&mut self) -> Result<()> {
        let core = &self.core;
        let used = core.journal.used_bytes();
        let checkpoint = core.journal.first_unapplied();
        let snapshot = core.tables.snapshot();
        let shards = core.queues.len() as u16;
        let sequences = (0..shards)
            .map(|shard| Progress::load(&snapshot, shard).map(|progress| progress.sequence))
            .collect::<Result<_>>()?;
        drop(snapshot);
        core.tables.persist().inspect_err(|error| {
            core.health.poison(format!("the tables could not be synced: {error}"));
        })?;
        Manifest { checkpoint, sequences }.store(&core.disk, &core.folder)?;
        core.journal.note_checkpoint(used);
        core.counters.checkpoints.add(1);
        self.checkpoint = checkpoint;
        Ok(())
    }

    fn reclaim_garbage(&self) -> Result<()> {
        for shard in 0..self.core.queues.len() as u16 {
            for node in self.garbage_of(shard)? {
                while !self.ask(shard, |reply| Work::Reclaim { node, reply })? {
                    if self.core.upkeep.is_closing() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn garbage_of(&self, shard: u16) -> Result<Vec<NodeId>> {
        let prefix = key::garbage_prefix(shard);
        let snapshot = self.core.tables.snapshot();
        let entries = snapshot.prefix(&prefix).take(NODES_AT_ONCE);
        let nodes = entries.map(|entry| Ok(key::garbage_node(&entry?.0)));
        Ok(nodes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Empties segments of which little is left, one after the other, until something else is due.
    fn compact(&self) -> Result<()> {
        let core = &self.core;
        while !core.upkeep.is_closing() && !core.is_checkpoint_due() {
            let share = if core.space.is_low() { SPARSE_SHARE_WHEN_LOW } else { SPARSE_SHARE };
            let Some(segment) = core.segments.sparsest(self.checkpoint.segment, share) else {
                break;
            };
            match self.empty_segment(segment) {
                Ok(0) => core.segments.leave_alone(segment),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    core.segments.leave_alone(segment);
                }
                result => drop(result?),
            }
            self.free_dead_segments();
        }
        Ok(())
    }

    /// Moves what is left of a segment; answers how many bytes that were.
    fn empty_segment(&self, segment: u32) -> Result<u64> {
        let mut owners: Vec<Vec<Key>> = vec![Vec::new(); self.core.queues.len()];
        let (mut moved, mut queued) = (0, 0);
        let snapshot = self.core.tables.snapshot();
        let mut last_offset = None;
        for entry in snapshot.prefix(&key::reference_prefix(segment)) {
            let (reference, _) = entry?;
            let Some((offset, owner)) = key::reference_parts(&reference) else { continue };
            let Some(node) = key::node_of(owner) else { continue };
            // Owners of one payload follow each other and are moved together.
            if last_offset != Some(offset) && queued >= RELOCATE_BYTES {
                moved += self.relocate(segment, &mut owners)?;
                queued = 0;
            }
            queued += last_offset.map_or(0, |last| u64::from(offset.saturating_sub(last)));
            last_offset = Some(offset);
            owners[usize::from(node.shard())].push(Key::from(owner));
            if self.core.upkeep.is_closing() {
                break;
            }
        }
        Ok(moved + self.relocate(segment, &mut owners)?)
    }

    fn relocate(&self, segment: u32, owners: &mut [Vec<Key>]) -> Result<u64> {
        let mut moved = 0;
        for (shard, owners) in owners.iter_mut().enumerate().filter(|(_, all)| !all.is_empty()) {
            let owners = std::mem::take(owners);
            moved += self.ask(shard as u16, |reply| Work::Relocate { segment, owners, reply })?;
        }
        Ok(moved)
    }

    fn ask<T>(
        &self,
        shard: u16,
        work: impl FnOnce(oneshot::Sender<Result<T>>) -> Work,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.core.queues[usize::from(shard)].push(work(reply))?;
        answer.blocking_recv().unwrap_or_else(|_| Err(crate::queue::closed()))
    }

    fn free_dead_segments(&self) {
        let core = &self.core;
        core.segments.retire_dead(self.checkpoint.segment);
        for (segment, account) in core.segments.take_dead() {
            core.journal.recycle(segment, account.capacity);
            core.counters.segments_freed.add(1);
        }
    }
}
