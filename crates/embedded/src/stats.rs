//! What the engine counts.

use nacre_object::Result;
use nacre_telemetry::{Counter, Durations, HistogramSnapshot, Sizes};

/// What an engine has done since it was opened, and what it holds. Sizes are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that changed something and were acknowledged.
    pub transactions: u64,
    /// Requests answered without a change.
    pub reads: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Groups of transactions written and synced together; each is one sync.
    pub groups: u64,
    /// Bytes written to the journal, padding included.
    pub journal_bytes: u64,
    /// Requests waiting for or being run by a shard.
    pub queued: u64,
    /// Segments of the journal.
    pub segments: u64,
    /// Length of all segments.
    pub segment_bytes: u64,
    /// Bytes in journal segments that objects refer to. Bytes that an object shares with snapshots
    /// and clones count once for each of them.
    pub live_bytes: u64,
    /// Bytes of payloads moved so that their segment could be freed.
    pub relocated_bytes: u64,
    /// Segments that died and were deleted or used again.
    pub segments_freed: u64,
    /// Checkpoints made so far. A replay starts at the last one.
    pub checkpoints: u64,
    /// How often background upkeep has failed. A job that failed because data is damaged skips that
    /// data from then on; any other failed job is tried again.
    pub upkeep_failures: u64,
    /// Transactions replayed when the store was opened.
    pub replayed: u64,
    /// Bytes of the tables on disk.
    pub table_bytes: u64,
    /// Bytes free on the disk, when last looked.
    pub free_bytes: u64,
    /// The reserve: while less than this is free, the store must not grow.
    pub reserve_bytes: u64,
    /// Whether the tables could not be written because the disk is full, and wait in memory.
    pub tables_wait_for_room: bool,
}

/// How an engine's groups of transactions became durable since it was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupStats {
    /// Transactions of a group.
    pub transactions: HistogramSnapshot,
    /// Seconds a group's write took.
    pub write_seconds: HistogramSnapshot,
    /// Seconds a group's sync took.
    pub sync_seconds: HistogramSnapshot,
    /// Seconds until the tables had a group.
    pub apply_seconds: HistogramSnapshot,
}

/// The counts behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub transactions: Counter,
    pub reads: Counter,
    pub failures: Counter,
    pub groups: Counter,
    pub journal_bytes: Counter,
    pub relocated_bytes: Counter,
    pub segments_freed: Counter,
    pub checkpoints: Counter,
    pub replayed: Counter,
    pub group_transactions: Sizes,
    pub write_time: Durations,
    pub sync_time: Durations,
    pub apply_time: Durations,
}

impl Counters {
    /// How groups became durable.
    pub fn groups(&self) -> GroupStats {
        GroupStats {
            transactions: self.group_transactions.snapshot(),
            write_seconds: self.write_time.snapshot(),
            sync_seconds: self.sync_time.snapshot(),
            apply_seconds: self.apply_time.snapshot(),
        }
    }

    /// Counts a request that only reads.
    pub fn note_read<T>(&self, result: &Result<T>) {
        if result.is_ok() { &self.reads } else { &self.failures }.add(1);
    }
}
