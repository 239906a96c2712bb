//! The result of reading back a store's tables and journal when it is opened: up to which record
//! each shard's changes are in the tables, and where the journal ends.

use std::collections::HashMap;
use std::sync::Arc;

use nacre_object::{Error, Result};

use super::JOURNAL;
use crate::entry::key;
use crate::journal::Position;
use crate::journal::record::Record;
use crate::journal::recovery::{Found, Reading, find_files};
use crate::journal::segment::{BLOCK_BYTES, Segment, file_name};
use crate::journal::segment_table::SegmentTable;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::tables::Tables;
use crate::transaction::batch::{Batch, LiveBytes, Progress};

/// Entries replayed per batch of the tables.
const REPLAY_ENTRIES: usize = 4096;

/// What was read back.
pub(super) struct Recovered {
    pub found: Found,
    /// The segments that a replay may read, open.
    pub replayable: Vec<Segment>,
    /// Where the next group goes.
    pub end: Position,
    pub shards: Vec<RecoveredShard>,
    pub replayed: u64,
    pub replayed_bytes: u64,
}

/// A shard as it is read back.
pub(super) struct RecoveredShard {
    pub id: u16,
    pub progress: Progress,
    pub live: LiveBytes,
    batch: Batch,
    /// The shard's sequence number at the checkpoint.
    floor: u64,
    /// Sequence of the last record seen in the journal.
    last_seen: Option<u64>,
}

pub(super) fn recover(
    options: &Options,
    tables: &Tables,
    manifest: &Manifest,
) -> Result<Recovered> {
    let folder = options.path.join(JOURNAL);
    let found = find_files(&options.disk, &folder)?;
    let replayable = found.open_from(manifest.checkpoint.segment, &options.disk, &folder)?;
    check_begins(&replayable, &manifest.checkpoint)?;
    let segment_table = SegmentTable::new(Arc::clone(&options.disk), folder);
    let mut shards = load_shards(tables, manifest)?;
    let (mut replayed, mut replayed_bytes) = (0, 0);
    let reading = Reading { segments: &replayable, salt: manifest.salt };
    let end = reading.replay(manifest.checkpoint, &mut |record| {
        let shard = shards
            .get_mut(usize::from(record.id.shard))
            .ok_or_else(|| Error::corrupt("a journal record names a shard that does not exist"))?;
        replayed_bytes += record.length as u64;
        replayed += u64::from(shard.replay(record)?);
        if shard.batch.len() >= REPLAY_ENTRIES {
            apply(&mut shards, tables, &segment_table)?;
        }
        Ok(())
    })?;
    apply(&mut shards, tables, &segment_table)?;
    shards.iter().try_for_each(RecoveredShard::check_complete)?;
    Ok(Recovered { found, replayable, end, shards, replayed, replayed_bytes })
}

/// Checks that the segment in which the replay starts exists. The segment may be missing if the
/// replay starts at its first group: perhaps no group was written to it.
fn check_begins(replayable: &[Segment], checkpoint: &Position) -> Result<()> {
    let is_there = replayable.first().is_some_and(|first| first.id == checkpoint.segment);
    if is_there || checkpoint.offset == BLOCK_BYTES {
        return Ok(());
    }
    Err(Error::corrupt(format!("{} is missing", file_name(checkpoint.segment)))
        .hint("restore the folder from a copy; acknowledged transactions may be lost"))
}

/// Writes the replayed changes to the tables.
fn apply(shards: &mut [RecoveredShard], tables: &Tables, segments: &SegmentTable) -> Result<()> {
    let batches = shards.iter_mut().map(|shard| std::mem::take(&mut shard.batch)).collect();
    let mut live: Vec<_> = shards.iter_mut().map(|shard| std::mem::take(&mut shard.live)).collect();
    Batch::apply_all(batches, tables, segments, &mut live);
    for (shard, live) in shards.iter_mut().zip(live) {
        shard.live = live;
    }
    if tables.is_full() {
        tables.seal();
        tables.write_sealed()?;
    }
    Ok(())
}

fn load_shards(tables: &Tables, manifest: &Manifest) -> Result<Vec<RecoveredShard>> {
    let snapshot = tables.snapshot();
    let mut live: HashMap<u16, LiveBytes> = HashMap::new();
    for entry in snapshot.prefix(&key::live_prefix()) {
        let (key, value) = entry?;
        let damaged = || Error::corrupt("a stored count of live bytes is malformed");
        let (segment, shard) = key::live_parts(&key).ok_or_else(damaged)?;
        let count = value.into_inline()?;
        let count = i64::from_le_bytes(count.as_ref().try_into().map_err(|_| damaged())?);
        live.entry(shard).or_default().insert(segment, count);
    }
    let shard = |(id, floor): (usize, &u64)| {
        let id = id as u16;
        let progress = Progress::load(&snapshot, id)?;
        if progress.sequence < *floor {
            return Err(Error::corrupt(format!(
                "the tables have lost transactions: shard {id} is at number {} and was at {floor}",
                progress.sequence
            ))
            .hint("restore the folder from a copy"));
        }
        let live = live.remove(&id).unwrap_or_default();
        Ok(RecoveredShard {
            id,
            progress,
            live,
            batch: Batch::default(),
            floor: *floor,
            last_seen: None,
        })
    };
    manifest.sequences.iter().enumerate().map(shard).collect()
}

impl RecoveredShard {
    /// Replays a record unless the tables have it. Returns whether it was replayed.
    fn replay(&mut self, record: Record) -> Result<bool> {
        let sequence = record.id.sequence;
        if self.last_seen.is_some_and(|last| sequence != last + 1) {
            return Err(self.incomplete(sequence));
        }
        self.last_seen = Some(sequence);
        if sequence <= self.progress.sequence {
            return Ok(false);
        }
        if sequence != self.progress.sequence + 1 {
            return Err(self.incomplete(sequence));
        }
        self.progress = Progress { sequence, next_node: record.id.next_node };
        self.batch.absorb(record.id, Arc::new(record.changes));
        Ok(true)
    }

    /// Checks that the journal has everything that the tables have. Everything in the tables was
    /// synced in the journal first, so a shorter journal has lost synced groups.
    fn check_complete(&self) -> Result<()> {
        let last = self.last_seen.unwrap_or(self.floor);
        if last < self.progress.sequence { Err(self.incomplete(last + 1)) } else { Ok(()) }
    }

    fn incomplete(&self, sequence: u64) -> Error {
        Error::corrupt(format!(
            "the journal is damaged: shard {} lacks transactions from about sequence number \
             {sequence} on, and its tables have those up to {}",
            self.id, self.progress.sequence
        ))
        .hint("restore the folder from a copy; acknowledged transactions may be lost")
    }
}

impl Recovered {
    /// A number that no segment and no spare file has.
    pub fn next_segment(&self) -> u32 {
        let found = self.found.segments.iter().chain(&self.found.spares);
        let last = found.map(|segment| segment.id).max();
        last.max((self.end.group > 1).then_some(self.end.segment)).map_or(0, |last| last + 1)
    }
}
