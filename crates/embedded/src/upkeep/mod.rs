//! The upkeep thread of an engine: makes checkpoints, deletes the entries of removed objects, moves
//! payloads out of nearly unused journal segments, and frees segments.
//!
//! The thread only decides. The shards make the changes to objects, in small transactions, so that
//! upkeep never occupies a shard for longer than a request does.
//!
//! **Invariant:** no job keeps another from being done. Damaged data is skipped. A failed job is
//! reported and tried again in the next round. A long job ends early once a checkpoint is due.

pub(crate) mod checkpoints;
pub(crate) mod compaction;
pub(crate) mod payload_owners;
pub(crate) mod upkeep_signal;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nacre_object::{ErrorKind, Result};
use tokio::sync::oneshot;

use crate::core::{Core, panic_text};
use crate::entry::key::{self, Key, NodeId};
use crate::errors;
use crate::journal::Position;
use crate::transaction::queue::Work;
use crate::upkeep::payload_owners::{PayloadOwner, PayloadOwners};
use crate::upkeep::upkeep_signal::Wake;

/// The thread starts a round of its jobs after this time if nothing wakes it earlier. An engine
/// that was idle for this time makes a checkpoint if the memtable is large enough for a file.
const IDLE_AFTER: Duration = Duration::from_millis(500);
/// An idle engine makes a checkpoint if the journal has grown by at least this many bytes since the
/// last one. A restart replays less than this almost at once.
const QUIET_CHECKPOINT_BYTES: u64 = 4 * 1024 * 1024;
/// How long to wait between attempts to flush after the disk was full. A failed attempt costs disk
/// writes too.
const TABLES_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// The most nodes emptied in one round, so that the other jobs get their turn.
const NODES_AT_ONCE: usize = 64;
/// The most removed streams and maps that upkeep skips because their entries are damaged. It skips
/// them until the store is opened again. Once it skips this many, the next damaged one ends the
/// deletions in its shard.
const MAX_NODES_LEFT_ALONE: usize = 16 * 1024;
/// Bytes moved by one transaction.
const RELOCATE_BYTES: u64 = 512 * 1024;
/// Compaction empties a journal segment when entries refer to less than this share of its bytes. So
/// an idle store takes at most twice the space of its data, and little is moved for each segment
/// freed.
const SPARSE_SHARE: f64 = 0.5;
/// The value of [`SPARSE_SHARE`] when disk space is short. It is not higher still, because moving
/// payloads takes space before it frees some.
const SPARSE_SHARE_WHEN_LOW: f64 = 0.75;
/// Compaction moves data only if the store has more than twice the segments that its live data
/// would fill, and this many on top. (An idle store or a nearly full disk does not wait for that.)
/// Data that is overwritten often needs no move, so waiting saves work.
const SPARSE_SEGMENTS: f64 = 8.0;

/// The thread's state.
pub(crate) struct Upkeep {
    core: Arc<Core>,
    checkpoint: Position,
    used_at_last_look: u64,
    /// Removed nodes whose entries cannot be read.
    left_alone: HashSet<NodeId>,
    /// When the tables were last asked to go on after the disk was full.
    tables_tried_at: Duration,
}

impl Upkeep {
    /// Starts with `checkpoint` as the last one made.
    pub fn new(core: Arc<Core>, checkpoint: Position) -> Self {
        Self {
            core,
            checkpoint,
            used_at_last_look: 0,
            left_alone: HashSet::new(),
            tables_tried_at: Duration::ZERO,
        }
    }

    /// Works until the engine closes. Returns itself, so that the caller can make a last
    /// checkpoint.
    pub fn run(mut self) -> Self {
        loop {
            match self.core.upkeep.wait(IDLE_AFTER) {
                Wake::Closing => return self,
                wake => {
                    let round = self.guarded_round(wake);
                    // Callers that wait for a checkpoint get an error even if the round ended
                    // before it.
                    self.core.upkeep.answer(&round);
                    self.note(round);
                }
            }
        }
    }

    /// A panic of the tables must not end the upkeep silently.
    fn guarded_round(&mut self, wake: Wake) -> Result<()> {
        let core = Arc::clone(&self.core);
        catch_unwind(AssertUnwindSafe(|| self.round(wake))).unwrap_or_else(|panic| {
            core.health.poison(format!("the upkeep panicked: {}", panic_text(&*panic)));
            core.health.check()
        })
    }

    /// Reports the failure of a job.
    fn note(&self, part: Result<()>) {
        let core = &self.core;
        // An error that stops all writing is reported elsewhere, and a closed engine needs no
        // report.
        if let Err(error) = part
            && core.health.check().is_ok()
            && !core.upkeep.is_closing()
        {
            core.upkeep.note_failure(error);
        }
    }

    fn round(&mut self, wake: Wake) -> Result<()> {
        self.core.health.check()?;
        // This comes before all parts that may fail, because they may fail for lack of space.
        self.free_dead_segments();
        self.go_on_after_full();
        let is_quiet = self.is_quiet(wake);
        if self.is_checkpoint_due(wake, is_quiet) {
            let made = self.make_checkpoint();
            self.core.upkeep.answer(&made);
            made?;
            self.free_dead_segments();
        } else if self.note_checkpoint()? {
            self.free_dead_segments();
        }
        if self.core.tables.admit().is_ok() {
            let reclaimed = self.reclaim_garbage();
            self.note(reclaimed);
            self.note(self.compact(is_quiet));
        }
        self.make_room();
        if self.is_called_away() {
            self.core.upkeep.ask();
        }
        Ok(())
    }

    /// Lets the tables flush and merge again after the disk was full.
    fn go_on_after_full(&mut self) {
        let Core { space, tables, clock, .. } = &*self.core;
        let now = clock.monotonic();
        if now.saturating_sub(self.tables_tried_at) >= TABLES_AGAIN_AFTER {
            self.tables_tried_at = now;
            space.look_if_due();
            tables.go_on_after_full(space.free_bytes(), !space.is_low());
        }
    }

    /// Frees space if the disk is nearly full. Measures the free space first, because there may be
    /// no requests that do.
    fn make_room(&self) {
        let Core { space, journal, tables, .. } = &*self.core;
        space.look_if_due();
        if space.is_low() {
            journal.delete_spares();
            tables.merge_away_removed(space.free_bytes());
        }
    }

    /// Whether a long job must stop because something else is due.
    fn is_called_away(&self) -> bool {
        let core = &self.core;
        core.upkeep.is_closing()
            || core.upkeep.is_checkpoint_asked()
            || core.is_seal_due() && !core.tables.waits_for_room()
            || core.checkpoints.has_one(core.tables.written())
    }

    /// Whether nothing has been written for a while.
    fn is_quiet(&mut self, wake: Wake) -> bool {
        let used = self.core.journal.used_bytes();
        wake == Wake::Idle && used == std::mem::replace(&mut self.used_at_last_look, used)
    }

    /// Whether to make a checkpoint now. A busy engine makes one when a seal is due. An idle engine
    /// also makes one if the memtable is large enough for a file, if the journal has grown enough,
    /// or if a checkpoint would free segments. An early checkpoint frees memory and makes the next
    /// start quick.
    fn is_checkpoint_due(&self, wake: Wake, is_quiet: bool) -> bool {
        let core = &self.core;
        let is_worth_it = || {
            core.tables.is_worth_a_file()
                || core.journal.unsealed_bytes() >= QUIET_CHECKPOINT_BYTES
                || core.journal.first_unapplied().segment != self.checkpoint.segment
        };
        let is_due = core.is_seal_due() || is_quiet && is_worth_it();
        wake == Wake::CheckpointAsked || is_due && !core.tables.waits_for_room()
    }

    /// Makes a checkpoint: waits until all entries of the tables are in files, then stores the
    /// position from which the next replay starts.
    pub fn make_checkpoint(&mut self) -> Result<()> {
        let core = &self.core;
        if core.tables.waits_for_room() {
            return Err(errors::disk_full(
                "no checkpoint can be made: the tables wait for disk space",
            ));
        }
        let seal = core.seal()?;
        core.tables.wait_until_written(seal).inspect_err(|error| {
            if error.kind() != ErrorKind::Exhausted {
                core.health.poison(format!("the tables could not be written: {error}"));
            }
        })?;
        self.note_checkpoint().map(drop)
    }

    /// Stores a new position for the next replay, if a pending checkpoint is now complete. Returns
    /// whether it did.
    fn note_checkpoint(&mut self) -> Result<bool> {
        let core = &self.core;
        let Some(manifest) = core.checkpoints.take_latest(core.tables.written()) else {
            return Ok(false);
        };
        manifest.store(&core.disk, &core.folder)?;
        core.counters.checkpoints.add(1);
        self.checkpoint = manifest.checkpoint;
        Ok(true)
    }

    fn reclaim_garbage(&mut self) -> Result<()> {
        for shard in 0..self.core.queues.len() as u16 {
            match self.reclaim_garbage_of(shard) {
                Err(error) if error.kind() == ErrorKind::Corrupt => self.note(Err(error)),
                result => result?,
            }
        }
        Ok(())
    }

    fn reclaim_garbage_of(&mut self, shard: u16) -> Result<()> {
        for node in self.garbage_of(shard)? {
            match self.reclaim(shard, node) {
                Err(error)
                    if error.kind() == ErrorKind::Corrupt
                        && self.left_alone.len() < MAX_NODES_LEFT_ALONE =>
                {
                    self.left_alone.insert(node);
                    self.note(Err(error));
                }
                result => result?,
            }
            self.free_dead_segments();
        }
        Ok(())
    }

    /// Deletes the entries of a removed node, until a more urgent job is due.
    fn reclaim(&self, shard: u16, node: NodeId) -> Result<()> {
        let mut is_gone = false;
        while !is_gone && !self.is_called_away() {
            is_gone = self.ask(shard, |reply| Work::Reclaim { node, reply })?;
        }
        Ok(())
    }

    fn garbage_of(&self, shard: u16) -> Result<Vec<NodeId>> {
        let prefix = key::garbage_prefix(shard);
        let snapshot = self.core.tables.snapshot();
        let nodes = snapshot.prefix(&prefix).map(|entry| Ok(key::garbage_node(&entry?.0)));
        nodes
            .filter_map(Result::transpose)
            .filter(|node| !node.as_ref().is_ok_and(|node| self.left_alone.contains(node)))
            .take(NODES_AT_ONCE)
            .collect()
    }

    /// Moves payloads out of segments of which little is in use, one segment after another, until a
    /// more urgent job is due.
    fn compact(&self, is_quiet: bool) -> Result<()> {
        let core = &self.core;
        while !self.is_called_away() {
            let (end, is_low) = (self.checkpoint.segment, core.space.is_low());
            if !is_low && !is_quiet && core.segments.sparse(end) < SPARSE_SEGMENTS {
                break;
            }
            let share = if is_low { SPARSE_SHARE_WHEN_LOW } else { SPARSE_SHARE };
            let Some((segment, before)) = core.segments.sparsest(end, share) else { break };
            match self.empty_segment(segment) {
                Ok(0) => core.segments.leave_alone(segment, &before),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    core.segments.leave_alone(segment, &before);
                    self.note(Err(error));
                }
                result => drop(result?),
            }
            self.free_dead_segments();
        }
        Ok(())
    }

    /// Moves the live payloads out of a segment. Returns how many bytes were moved.
    ///
    /// # Errors
    /// `Corrupt` if the segment is damaged. All readable payloads have been moved then.
    fn empty_segment(&self, segment: u32) -> Result<u64> {
        let mut owners: Vec<Vec<Key>> = vec![Vec::new(); self.core.queues.len()];
        let (mut moved, mut queued) = (0, 0);
        // Read the releases before the snapshot, so that the snapshot contains them.
        let released = self.core.segments.released_of(segment);
        let durable = self.core.journal.durable();
        let mut inventory = self.core.inventory(segment, durable, released)?;
        let damage = inventory.damage.take();
        let snapshot = self.core.tables.snapshot();
        let mut last_offset = None;
        for owner in PayloadOwners::find(&snapshot, segment, inventory)? {
            let PayloadOwner { offset, key, bytes } = owner?;
            let Some(node) = key::node_of(&key) else { continue };
            // Owners of one payload are moved together.
            if last_offset.replace(offset) != Some(offset) && queued >= RELOCATE_BYTES {
                moved += self.relocate(segment, queued, &mut owners)?;
                queued = 0;
            }
            queued += bytes;
            owners[usize::from(node.shard())].push(key);
            if self.core.upkeep.is_closing() {
                break;
            }
        }
        moved += self.relocate(segment, queued, &mut owners)?;
        damage.map_or(Ok(moved), Err)
    }

    fn relocate(&self, segment: u32, bytes: u64, owners: &mut [Vec<Key>]) -> Result<u64> {
        if owners.iter().all(Vec::is_empty) {
            return Ok(0);
        }
        let _turn = self.core.pace.before_compaction(bytes);
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
        answer.blocking_recv().unwrap_or_else(|_| Err(crate::transaction::queue::closed()))
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
