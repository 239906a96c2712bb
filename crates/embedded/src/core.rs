//! What the threads of an engine share.

use std::path::PathBuf;
use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{CallContext, ClassHost, Error, FaultSite, ObjectId, Op, OpResult, Reply};
use nacre_object::{Request, Result, run_transaction};

use crate::disk::Disk;
use crate::entry::layers::Layers;
use crate::health::Health;
use crate::journal::Journal;
use crate::journal::inventory::Inventory;
use crate::journal::released_payloads::SegmentReleases;
use crate::journal::segment_table::SegmentTable;
use crate::manifest::Manifest;
use crate::pace::Pace;
use crate::space::Space;
use crate::stats::{Counters, Stats};
use crate::tables::Tables;
use crate::transaction::batch::Progress;
use crate::transaction::queue::Queue;
use crate::transaction::read_barrier::ReadBarrier;
use crate::upkeep::checkpoints::{Candidate, Checkpoints};
use crate::upkeep::upkeep_signal::UpkeepSignal;
use crate::view::{Mode, Transaction};
use crate::watch::Watchers;

/// The number of journal bytes between two checkpoints. An engine that starts after a crash replays
/// about this much, which takes a fraction of a second. Each checkpoint costs one table file.
const CHECKPOINT_BYTES: u64 = 64 * 1024 * 1024;
/// The number of journal bytes between two checkpoints when disk space is short. Until a
/// checkpoint, journal files cannot be freed, so checkpoints must then be closer together.
const CHECKPOINT_BYTES_WHEN_LOW: u64 = 4 * 1024 * 1024;

/// The parts of an open engine.
pub(crate) struct Core {
    /// The directory of the store.
    pub folder: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub tables: Tables,
    pub journal: Journal,
    pub segments: Arc<SegmentTable>,
    pub queues: Vec<Queue>,
    pub classes: Arc<dyn ClassHost>,
    pub clock: Arc<dyn Clock>,
    pub space: Space,
    pub watchers: Arc<Watchers>,
    pub health: Arc<Health>,
    pub read_barrier: Arc<ReadBarrier>,
    pub counters: Arc<Counters>,
    pub checkpoints: Checkpoints,
    pub upkeep: Arc<UpkeepSignal>,
    pub pace: Arc<dyn Pace>,
}

impl Core {
    /// Whether to seal the memtable now, that is, to queue it for a flush and begin a new one. A
    /// memtable is sealed when it is full, or when the journal has grown enough since the last
    /// seal. While sealed memtables wait for disk space, only a full one is sealed.
    pub fn is_seal_due(&self) -> bool {
        let low = self.space.is_low();
        let limit = if low { CHECKPOINT_BYTES_WHEN_LOW } else { CHECKPOINT_BYTES };
        let is_due = self.journal.unsealed_bytes() >= limit;
        self.tables.is_full() || is_due && !self.tables.waits_for_room()
    }

    /// Seals the memtable. Also queues a checkpoint, which the upkeep thread completes once all
    /// entries of the sealed memtables are in files. Returns the number of the seal.
    ///
    /// # Errors
    /// `Corrupt` if the table entry that says how far a shard has applied the journal is damaged.
    pub fn seal(&self) -> Result<u64> {
        let mut candidates = self.checkpoints.lock();
        // Find the position before the snapshot, so that the tables have everything before it.
        let used = self.journal.used_bytes();
        let checkpoint = self.journal.first_unapplied();
        let snapshot = self.tables.snapshot_with_deferred();
        let shards = self.queues.len() as u16;
        let sequences = (0..shards)
            .map(|shard| Progress::load(&snapshot, shard).map(|progress| progress.sequence))
            .collect::<Result<_>>()?;
        let manifest = Manifest { salt: self.journal.salt(), checkpoint, sequences };
        let seal = self.tables.seal();
        self.journal.note_sealed(used);
        candidates.push_back(Candidate { seal, manifest });
        Ok(seal)
    }

    /// The shard that runs the transactions of an object. A directory's objects never change their
    /// shard.
    pub fn shard_of(&self, object: &ObjectId) -> u16 {
        (hash_of(object) % self.queues.len() as u64) as u16
    }

    /// Lists the table entries that referred to the payloads (large values) of a journal segment
    /// when the payloads were written. Reads the segment's groups up to number `last`, which must
    /// be synced. Leaves out the payloads in `released`.
    ///
    /// # Errors
    /// `Corrupt` if the segment's file is missing, or any error of the disk.
    pub fn inventory(
        &self,
        segment: u32,
        last: u64,
        released: SegmentReleases,
    ) -> Result<Inventory> {
        let segment = self.segments.open_one(segment)?;
        let take = |segment| Inventory::take(&segment, self.journal.salt(), last, released);
        segment.map_or_else(|| Ok(Inventory::default()), take)
    }

    /// Returns the first op of a request that may change something. A method call may, unless its
    /// class declares the method read-only.
    pub fn first_write<'a>(&self, request: &'a Request) -> Option<&'a Op> {
        request.ops.iter().find(|op| match op {
            Op::Call(call) => !self.classes.is_read_only(call),
            op => op.is_write(),
        })
    }

    /// Returns the journal group that must be in the tables before this request can run, or `None`
    /// if it need not wait. A read waits for changes of its object, and a clone for changes of its
    /// source. Any other write waits for nothing: the object's shard knows the changes that are not
    /// in the tables yet.
    pub fn awaited(&self, request: &Request, is_write: bool) -> Option<u64> {
        self.read_barrier.awaited_of_all()?;
        if !is_write {
            return self.read_barrier.awaited(hash_of(&request.header.object));
        }
        let pool = &request.header.object.pool;
        let sources = request.ops.iter().filter_map(Op::source);
        let sources = sources.map(|source| hash_of(&ObjectId::new(pool.clone(), source.clone())));
        sources.filter_map(|source| self.read_barrier.awaited(source)).max()
    }

    /// Answers a read-only request from the tables, which hold only what is synced.
    pub fn read(&self, request: &Request) -> Result<Reply> {
        // The pin is older than the snapshot, so it keeps whatever the snapshot refers to.
        let _pin = self.segments.pin();
        let tables = self.tables.snapshot();
        let layers = Layers::of_tables(&tables);
        let object = &request.header.object;
        let mut transaction = match &request.header.snapshot {
            None => Transaction::begin(layers, &self.segments, object, Mode::Read)?,
            Some(name) => Transaction::at_snapshot(layers, &self.segments, object, name)?,
        };
        let results = self.run(request, &mut transaction, self.clock.now_micros())?;
        Ok(Reply { version: transaction.finish().version, results })
    }

    /// Runs the ops of a request. A method that panics fails only its own transaction.
    pub fn run(
        &self,
        request: &Request,
        transaction: &mut Transaction<'_>,
        now_micros: u64,
    ) -> Result<Vec<OpResult>> {
        let context = CallContext { source: request.header.source.clone(), now_micros };
        let run = || run_transaction(&request.ops, transaction, &*self.classes, &context);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
            let program = request.ops.iter().find_map(|op| match op {
                Op::Call(call) => Some(call.class.to_string()),
                _ => None,
            });
            let what = if program.is_some() { "a class method" } else { "the engine" };
            let site = FaultSite { program: program.unwrap_or_default(), ..FaultSite::default() };
            Err(Error::fault_at(site, format!("{what} panicked: {}", panic_text(&*panic))))
        })
    }

    pub fn stats(&self) -> Stats {
        let (counters, segments) = (&self.counters, self.segments.all());
        Stats {
            transactions: counters.transactions.get(),
            reads: counters.reads.get(),
            failures: counters.failures.get(),
            groups: counters.groups.get(),
            journal_bytes: counters.journal_bytes.get(),
            queued: self.queues.iter().map(Queue::len).sum(),
            segments: segments.len() as u64,
            segment_bytes: segments.iter().map(|(_, account)| u64::from(account.capacity)).sum(),
            live_bytes: segments.iter().map(|(_, account)| account.live_bytes.max(0) as u64).sum(),
            relocated_bytes: counters.relocated_bytes.get(),
            segments_freed: counters.segments_freed.get(),
            checkpoints: counters.checkpoints.get(),
            upkeep_failures: self.upkeep.failures(),
            replayed: counters.replayed.get(),
            table_bytes: self.tables.bytes(),
            free_bytes: self.space.free_bytes(),
            reserve_bytes: self.space.reserve_bytes(),
            tables_wait_for_room: self.tables.waits_for_room(),
        }
    }
}

/// The hash of an object that spreads it over shards and slots.
pub(crate) fn hash_of(object: &ObjectId) -> u64 {
    fnv(&[object.pool.as_str().as_bytes(), &[0], object.name.as_str().as_bytes()])
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

/// The FNV-1a hash, which decides the shard of an object. Stored directories depend on it, so it
/// must be the same in every release.
fn fnv(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Its low bits alone are weak.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_that_spreads_objects_never_changes() {
        // FNV-1a's published value for "foobar", folded.
        let published: u64 = 0x8594_4171_f739_67e8;
        assert_eq!(fnv(&[b"foo", b"bar"]), published ^ (published >> 32));
    }
}
