//! The journal: every transaction is written here first, and large payloads stay here.
//!
//! Shards append records to the *filling* group. A record has the transaction's changes to the
//! tables; the client's reply waits until the record is synced. The committer takes the group,
//! writes it with one write and syncs it, while the shards fill the next one. So the more requests
//! wait, the more of them share a sync. When few wait, the committer delays a group briefly to let
//! it fill ([`Journal::take`]).
//!
//! **Invariant:** one group is in flight at a time, so a group on disk proves that all groups
//! before it were synced. If no group follows the last one soon, a [mark](SyncMark) on disk records
//! that the last group was synced.
//!
//! **Invariant:** after a failed write or sync the engine writes nothing more (see [`Health`]).

mod group;
pub(crate) mod inventory;
pub(crate) mod payload_reader;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod released_payloads;
pub(crate) mod segment;
pub(crate) mod segment_source;
pub(crate) mod segment_table;
mod slot;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nacre_clock::Clock;
use nacre_object::limits::MAX_TRANSACTION_BYTES;
use nacre_object::{Error, Result};

use crate::errors;
use crate::health::Health;
use crate::stats::Counters;
use crate::transaction::commit::{Commit, PendingReply};
pub(crate) use group::Group;
use record::RecordAddress;
use segment::{BLOCK_BYTES, GroupHeader, Salt, Segment, SyncMark, round_up_to_block};
use segment_source::{Fill, SegmentSource};
use segment_table::SegmentTable;
use slot::Slot;

/// The length of a segment, which is a file of the journal. It is short enough that a new store
/// takes little space, and that a background thread fills the next segment with zeros in some 10
/// ms. It is long enough that a store of 1 TiB has only some 65,000 segments.
pub const DEFAULT_SEGMENT_BYTES: u32 = 16 * 1024 * 1024;
/// The shortest length of a segment: it holds some groups.
pub const MIN_SEGMENT_BYTES: u32 = 64 * 1024;
/// If the groups of a segment are smaller than this on average, the next segment is filled with
/// zeros beforehand. A sync then finds all blocks written, which makes small syncs faster. For
/// larger groups the zeros cost more than they save: appends of 1 KiB and 4 KiB lost a quarter of
/// their rate.
const SMALL_GROUP_BYTES: u64 = 16 * 1024;
/// How long the committer waits at most for a group to fill: about as long as a sync takes. So a
/// lone writer waits at most about twice as long as a sync takes.
const GATHER_PATIENCE: Duration = Duration::from_micros(200);
/// If no next group comes within this time, a mark on disk records that the last group was synced.
/// A busy journal writes no marks.
const MARK_AFTER: Duration = Duration::from_millis(1);
/// The number of bytes that may wait for the committer. When more wait, a shard waits before it
/// appends. This is some hundred groups of small transactions, and little memory.
const MAX_UNSYNCED_BYTES: usize = 8 * 1024 * 1024;
/// A group's buffer is kept for a later group unless it is larger than this.
const MAX_KEPT_BUFFER_BYTES: usize = 1024 * 1024;
/// Buffers kept for further groups: one is filled while another is written.
const MAX_SPARE_BUFFERS: usize = 2;

// A record contains payloads, keys, and copies of values for snapshots. None of the three takes
// more than `MAX_TRANSACTION_BYTES`. Their sum must fit into the u32 offsets within a segment.
const _: () = assert!(MAX_TRANSACTION_BYTES as u64 * 4 < u32::MAX as u64);

/// A position between two groups of the journal, from which a replay can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub segment: u32,
    pub offset: u32,
    /// The number of the group there.
    pub group: u64,
}

/// The end of a journal that was read back.
#[derive(Debug)]
pub(crate) struct End {
    pub segment: Segment,
    /// Where the next group goes in the segment.
    pub position: Position,
    /// The random number in the headers of groups.
    pub salt: Salt,
    /// Bytes that were replayed. They count towards the next seal.
    pub replayed_bytes: u64,
}

/// The journal, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    pub segments: Arc<SegmentTable>,
    source: SegmentSource,
    salt: Salt,
    state: Mutex<State>,
    /// There is something for the committer.
    filled: Condvar,
    /// The committer has taken what there was.
    taken: Condvar,
    /// A segment was opened, or could not be.
    opened: Condvar,
    health: Arc<Health>,
    counters: Arc<Counters>,
    clock: Arc<dyn Clock>,
    /// What `used_bytes` was when the tables were sealed last.
    sealed_at: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Full groups in segments that are full, which the committer has not taken yet.
    closed: Vec<Group>,
    filling: Group,
    /// Replies and changes that wait for the closed groups and the filling one.
    waiting: Commit,
    /// The positions of groups that the committer has taken and whose changes are not in the tables
    /// yet.
    in_flight: VecDeque<Position>,
    /// The last group that is synced.
    durable: u64,
    /// The last group for which a mark was written, or failed to be.
    marked: u64,
    /// How many replies must wait until the committer is woken. `None` while the committer works.
    committer_wakes_at: Option<usize>,
    /// Answers that waited for the last group.
    last_answers: usize,
    is_closed: bool,
    /// A shard is waiting for the next segment.
    is_opening: bool,
    spare_buffers: Vec<Vec<u8>>,
    /// The first group of the current segment.
    first_in_segment: u64,
    used_bytes: u64,
}

impl State {
    fn has_work(&self) -> bool {
        self.filling.records > 0 || !self.closed.is_empty() || !self.waiting.is_empty()
    }

    fn unsynced_bytes(&self) -> usize {
        self.closed.iter().chain([&self.filling]).map(|group| group.bytes.len()).sum()
    }

    /// Closes the filling group and starts another at the front of a new segment.
    fn go_on_in(&mut self, segment: Segment) {
        let is_empty = self.filling.records == 0;
        let position = Position {
            segment: segment.id,
            offset: BLOCK_BYTES,
            group: self.filling.position.group + u64::from(!is_empty),
        };
        let next = Group::empty(segment, position, self.filling.salt, Vec::new());
        let last = std::mem::replace(&mut self.filling, next);
        self.used_bytes += u64::from(last.segment.capacity - last.position.offset);
        if !is_empty {
            self.closed.push(last);
        }
        self.first_in_segment = position.group;
    }
}

/// The cost of making groups durable.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub sync: Duration,
    pub transactions: u64,
    pub bytes: u64,
}

impl Journal {
    /// Opens the journal for writing at `end`.
    pub fn new(
        segments: Arc<SegmentTable>,
        source: SegmentSource,
        end: End,
        health: Arc<Health>,
        counters: Arc<Counters>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let End { segment, position, salt, replayed_bytes } = end;
        segments.add(&segment);
        let state = State {
            closed: Vec::new(),
            filling: Group::empty(segment, position, salt, Vec::new()),
            waiting: Commit::default(),
            in_flight: VecDeque::new(),
            durable: position.group - 1,
            marked: 0,
            committer_wakes_at: None,
            last_answers: 0,
            is_closed: false,
            is_opening: false,
            spare_buffers: Vec::new(),
            first_in_segment: position.group,
            used_bytes: replayed_bytes,
        };
        Self {
            segments,
            source,
            salt,
            state: Mutex::new(state),
            filled: Condvar::new(),
            taken: Condvar::new(),
            opened: Condvar::new(),
            health,
            counters,
            clock,
            sealed_at: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves space for a record of this many bytes. Waits while more than [`MAX_UNSYNCED_BYTES`]
    /// wait for the committer. The slot holds the journal's lock, so nobody else can append until
    /// the slot is filled or dropped.
    ///
    /// # Errors
    /// `Exhausted` if the record needs a new segment and the disk is full; nothing is changed then.
    /// `Unavailable` after a write or sync has failed.
    pub fn slot(&self, bytes: usize) -> Result<Slot<'_>> {
        let mut state = self.lock();
        loop {
            while state.unsynced_bytes() > MAX_UNSYNCED_BYTES && self.health.check().is_ok() {
                state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            self.health.check()?;
            if state.filling.has_room_for(bytes) {
                break;
            }
            state = if state.is_opening {
                self.opened.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.open_segment(state, bytes)?
            };
        }
        let group = &state.filling;
        let place = RecordAddress {
            segment: group.position.segment,
            offset: group.position.offset + group.bytes.len() as u32,
            group: group.position.group,
        };
        Ok(Slot::new(self, state, place))
    }

    /// Whether records of this many bytes can be appended without waiting for the committer or for
    /// a new segment file.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        let state = self.lock();
        state.unsynced_bytes() + bytes <= MAX_UNSYNCED_BYTES && state.filling.has_room_for(bytes)
    }

    /// Holds a reply to a client back until everything appended so far is synced. A reply to the
    /// upkeep thread is held back until the changes are in the tables.
    pub fn hold(&self, held: PendingReply) {
        let mut state = self.lock();
        state.waiting.held.push(held);
        self.wake_committer(state);
    }

    fn wake_committer(&self, mut state: MutexGuard<'_, State>) {
        let waiting = state.waiting.held.len();
        let wake = state.committer_wakes_at.take_if(|answers| waiting >= *answers).is_some();
        drop(state);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Opens a new segment file with space for a record of this many bytes. Unlocks the journal
    /// meanwhile, because the disk may take long.
    fn open_segment<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        record_bytes: usize,
    ) -> Result<MutexGuard<'a, State>> {
        let groups = state.filling.position.group - state.first_in_segment + 1;
        let is_small = u64::from(state.filling.segment.capacity) / groups < SMALL_GROUP_BYTES;
        let fill = if is_small { Fill::Zeros } else { Fill::Nothing };
        let needed = u64::from(BLOCK_BYTES) + (GroupHeader::BYTES + record_bytes) as u64;
        let needed = u32::try_from(round_up_to_block(needed)).map_err(|_| {
            Error::exhausted("the transaction is larger than a segment of the journal can be")
                .hint("divide it into smaller transactions")
        })?;
        state.is_opening = true;
        drop(state);
        let segment = self.source.take(needed, fill);
        let mut state = self.lock();
        state.is_opening = false;
        self.opened.notify_all();
        let segment =
            segment.map_err(|error| errors::io("making a new segment of the journal", &error))?;
        self.segments.add(&segment);
        state.go_on_in(segment);
        Ok(state)
    }

    /// Takes all groups that wait to be written; waits until there is one. Only the committer calls
    /// this. Returns `None` once the journal is closed and empty.
    pub fn take(&self) -> Option<(Vec<Group>, Commit)> {
        let mut state = self.lock();
        while !state.has_work() {
            if state.is_closed {
                return None;
            }
            state.committer_wakes_at = Some(1);
            state = self.wait_for_work(state);
        }
        let mut state = self.gather(state);
        let mut groups = std::mem::take(&mut state.closed);
        if state.filling.records > 0 {
            let buffer = state.spare_buffers.pop().unwrap_or_default();
            let next = state.filling.next(buffer);
            state.used_bytes += u64::from(next.position.offset - state.filling.position.offset);
            groups.push(std::mem::replace(&mut state.filling, next));
        }
        // Groups that fail stay in this list, because the next replay must start there.
        state.in_flight.extend(groups.iter().map(|group| group.position));
        self.taken.notify_all();
        Some((groups, std::mem::take(&mut state.waiting)))
    }

    /// Waits until the committer has work. If none comes within [`MARK_AFTER`], records on disk
    /// that the last group was synced, and returns.
    fn wait_for_work<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.marked == state.durable || self.health.check().is_err() {
            return self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.filled.wait_timeout(state, MARK_AFTER);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if !waited.timed_out() || state.has_work() {
            return state;
        }
        state.marked = state.durable;
        let (synced, next) = (state.durable, &state.filling);
        let (segment, offset) = (next.segment.clone(), next.position.offset);
        drop(state);
        if let Err(error) = self.write_mark(&segment, offset, synced) {
            self.health.poison(format!("the journal could not be written: {error}"));
        }
        self.lock()
    }

    /// Writes a mark at the offset of the next group. The mark says that every group up to number
    /// `synced` is synced. Does nothing if the segment has no space left.
    fn write_mark(&self, segment: &Segment, offset: u32, synced: u64) -> std::io::Result<()> {
        let mark = SyncMark { segment: segment.id, synced }.encode(self.salt);
        match offset + BLOCK_BYTES <= segment.capacity {
            true => segment.file.write_at(u64::from(offset), &mark),
            false => Ok(()),
        }
    }

    /// Waits briefly until the group has half as many requests as the last group answered. Clients
    /// that got a reply usually send their next request soon. So busy writers split into two
    /// groups: one is synced while the other fills. If all joined one group, the writers and the
    /// disk would take turns waiting. If the committer did not wait, each sync would serve few
    /// requests.
    fn gather<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let enough = state.last_answers / 2;
        state.committer_wakes_at = Some(enough);
        let is_short = |state: &mut State| state.waiting.held.len() < enough && !state.is_closed;
        let waited = self.filled.wait_timeout_while(state, GATHER_PATIENCE, is_short);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.committer_wakes_at = None;
        state.last_answers = state.waiting.held.len();
        state
    }

    /// Writes and syncs groups one after the other.
    ///
    /// # Errors
    /// `Unavailable` if a group could not be synced. That group may still be on disk, and the
    /// engine writes nothing more.
    pub fn write(&self, groups: &mut [Group]) -> Result<Spent> {
        let mut spent = Spent::default();
        for group in groups {
            if let Err(error) = self.write_group(group, &mut spent) {
                self.health.poison(format!("the journal could not be written: {error}"));
                self.taken.notify_all();
            }
            self.health.check()?;
            self.lock().durable = group.position.group;
        }
        Ok(spent)
    }

    fn write_group(&self, group: &mut Group, spent: &mut Spent) -> std::io::Result<()> {
        group.seal();
        let file = &group.segment.file;
        let started = self.clock.monotonic();
        file.write_at(u64::from(group.position.offset), &group.bytes)?;
        let written = self.clock.monotonic();
        file.sync()?;
        let synced = self.clock.monotonic();
        let counters = &self.counters;
        counters.groups.add(1);
        counters.journal_bytes.add(group.bytes.len() as u64);
        counters.group_transactions.record(group.records.into());
        counters.write_time.record_duration(written.saturating_sub(started));
        counters.sync_time.record_duration(synced.saturating_sub(written));
        spent.sync += synced.saturating_sub(written);
        spent.transactions += u64::from(group.records);
        spent.bytes += group.bytes.len() as u64;
        Ok(())
    }

    /// The last group that is synced.
    pub fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// Keeps the buffers of groups that were written, to use them again.
    pub fn reuse(&self, groups: Vec<Group>) {
        let mut state = self.lock();
        let room = MAX_SPARE_BUFFERS - state.spare_buffers.len();
        let buffers = groups.into_iter().map(|group| group.bytes);
        let kept = buffers.filter(|bytes| bytes.capacity() <= MAX_KEPT_BUFFER_BYTES).take(room);
        state.spare_buffers.extend(kept);
    }

    /// Says that everything up to a group is in the tables.
    pub fn note_applied(&self, group: u64) {
        let mut state = self.lock();
        while state.in_flight.front().is_some_and(|position| position.group <= group) {
            state.in_flight.pop_front();
        }
    }

    /// The random number in the headers of this journal's groups.
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Closes the journal. The committer still writes all groups that wait.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Where a replay must start for the tables to have everything.
    pub fn first_unapplied(&self) -> Position {
        let state = self.lock();
        let closed = state.closed.first().map(|group| group.position);
        state.in_flight.front().copied().or(closed).unwrap_or(state.filling.position)
    }

    /// How many bytes the journal has grown since it was opened, plus the bytes that were replayed
    /// at the opening.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes
    }

    /// How many bytes the journal has grown since the last seal of the memtable. A checkpoint
    /// follows each seal, so a replay after a crash reads about this much.
    pub fn unsealed_bytes(&self) -> u64 {
        self.used_bytes().saturating_sub(self.sealed_at.load(Ordering::Relaxed))
    }

    /// Notes that the tables were sealed when the journal had used `used_bytes`.
    pub fn note_sealed(&self, used_bytes: u64) {
        self.sealed_at.store(used_bytes, Ordering::Relaxed);
    }

    /// Takes back the files of dead segments.
    pub fn recycle(&self, id: u32, capacity: u32) {
        self.source.recycle(id, capacity);
    }

    /// Gives back the space of files kept for later segments.
    pub fn delete_spares(&self) {
        self.source.delete_spares();
    }
}
