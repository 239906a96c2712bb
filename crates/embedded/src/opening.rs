//! Opening a directory: lock it, read the tables, replay the journal, start the threads.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nacre_object::{Error, Result};
use rustix::fs::{FlockOperation, flock};

use crate::applier::Applying;
use crate::batch::{Batch, LiveBytes, Progress};
use crate::committer::Committer;
use crate::core::Core;
use crate::errors;
use crate::health::Health;
use crate::journal::record::Record;
use crate::journal::recovery::{Found, FoundSegment, find_files, replay};
use crate::journal::segment::{BLOCK_BYTES, Segment, file_name, spare_name};
use crate::journal::segment_source::{Fill, SegmentSource};
use crate::journal::segment_table::SegmentTable;
use crate::journal::{End, Journal, Position};
use crate::key;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::queue::Queue;
use crate::shard::Shard;
use crate::space::Space;
use crate::stats::Counters;
use crate::tables::Tables;
use crate::upkeep::Upkeep;
use crate::upkeep_signal::UpkeepSignal;
use crate::visibility::Visibility;

const LOCK: &str = "LOCK";
const JOURNAL: &str = "journal";
const TABLES: &str = "tables";
/// Entries replayed per batch of the tables.
const REPLAY_ENTRIES: usize = 4096;

/// An engine whose threads run.
pub(crate) struct Opened {
    pub core: Arc<Core>,
    pub shards: Vec<JoinHandle<()>>,
    pub committer: JoinHandle<()>,
    pub upkeep: JoinHandle<Upkeep>,
    /// Held for as long as the directory is in use.
    pub lock: File,
}

/// Opens the directory of `options`.
///
/// # Errors
/// `Unavailable` if another process has it open, `Corrupt` if what was acknowledged cannot be read
/// back, `Invalid` for options that cannot be.
pub(crate) fn open(options: &Options) -> Result<Opened> {
    options.check()?;
    let folder = &options.path;
    let lock = prepare_folder(options).map_err(|error| error.on(folder.display()))?;
    let (tables, manifest) = match Manifest::load(&options.disk, folder)? {
        Some(manifest) => (open_tables(options)?, manifest),
        None => make_store(options)?,
    };
    // Who wrote the manifest may not have come to this, and what it does without is given away from now on.
    options.disk.sync_folder(folder).map_err(|error| errors::io("syncing the folder", &error))?;
    let recovered = recover(options, &tables, &manifest)?;
    start(options, lock, tables, manifest, recovered)
}

fn open_tables(options: &Options) -> Result<Tables> {
    let folder = options.path.join(TABLES);
    Tables::open(&folder, options.cache_bytes, options.memtable_bytes)
        .map_err(|error| error.on(folder.display()))
}

fn prepare_folder(options: &Options) -> Result<File> {
    let folder = &options.path;
    let failed = |error: std::io::Error| errors::io("making the folder", &error);
    options.disk.create_folder(folder).map_err(failed)?;
    options.disk.create_folder(&folder.join(JOURNAL)).map_err(failed)?;
    let failed = |error: std::io::Error| errors::io(format!("locking {LOCK}"), &error);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))
        .map_err(failed)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(Error::unavailable("another process has this store open")
                .hint("stop it, or choose another folder"))
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Makes what a directory without a manifest lacks, which may be the rest of it: whoever began to
/// make it may have crashed. The manifest comes last, and when it is there all else survives.
fn make_store(options: &Options) -> Result<(Tables, Manifest)> {
    let (folder, journal) = (&options.path, options.path.join(JOURNAL));
    let lost = |what| {
        let text = format!("the manifest is missing, but there {what}");
        Err(Error::corrupt(text).on(folder.display()).hint("restore the folder from a copy"))
    };
    if !find_files(&options.disk, &journal)?.segments.is_empty() {
        return lost("is a journal");
    }
    let tables = match open_tables(options) {
        // Half made. Nothing was ever written: the journal is made after the manifest.
        Err(_) => {
            std::fs::remove_dir_all(folder.join(TABLES))
                .map_err(|error| errors::io("clearing tables that were never used", &error))?;
            open_tables(options)?
        }
        tables => tables?,
    };
    if tables.snapshot().prefix(&[]).next().is_some() {
        return lost("are tables");
    }
    tables.sync_all()?;
    let checkpoint = Position { segment: 0, offset: BLOCK_BYTES, group: 1 };
    let manifest = Manifest { checkpoint, sequences: vec![0; options.shards] };
    manifest.store(&options.disk, folder)?;
    Ok((tables, manifest))
}

/// What was read back.
struct Recovered {
    found: Found,
    /// The segments that a replay may read, open.
    replayable: Vec<Segment>,
    /// Where the next group goes.
    end: Position,
    shards: Vec<RecoveredShard>,
    replayed: u64,
    replayed_bytes: u64,
}

/// A shard as it is read back.
struct RecoveredShard {
    id: u16,
    progress: Progress,
    live: LiveBytes,
    batch: Batch,
    /// What it had come to at the checkpoint.
    floor: u64,
    /// Sequence of the last record seen in the journal.
    last_seen: Option<u64>,
}

fn recover(options: &Options, tables: &Tables, manifest: &Manifest) -> Result<Recovered> {
    let folder = options.path.join(JOURNAL);
    let found = find_files(&options.disk, &folder)?;
    let replayable = found.open_from(manifest.checkpoint.segment, &options.disk, &folder)?;
    check_begins(&replayable, &manifest.checkpoint)?;
    let segment_table = SegmentTable::new(Arc::clone(&options.disk), folder);
    let mut shards = load_shards(tables, manifest)?;
    let (mut replayed, mut replayed_bytes) = (0, 0);
    let end = replay(&replayable, manifest.checkpoint, &mut |record| {
        let shard = shards
            .get_mut(usize::from(record.id.shard))
            .ok_or_else(|| Error::corrupt("a journal record of a shard there is not"))?;
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

/// Makes sure that the segment is there in which a replay starts behind other groups.
fn check_begins(replayable: &[Segment], checkpoint: &Position) -> Result<()> {
    let is_there = replayable.first().is_some_and(|first| first.id == checkpoint.segment);
    if is_there || checkpoint.offset == BLOCK_BYTES {
        return Ok(());
    }
    Err(Error::corrupt(format!("{} is missing", file_name(checkpoint.segment)))
        .hint("restore the folder from a copy; acknowledged transactions may be missing"))
}

/// Writes what was taken in to the tables.
fn apply(shards: &mut [RecoveredShard], tables: &Tables, segments: &SegmentTable) -> Result<()> {
    let batches = shards.iter_mut().map(|shard| std::mem::take(&mut shard.batch)).collect();
    let mut live: Vec<_> = shards.iter_mut().map(|shard| std::mem::take(&mut shard.live)).collect();
    let applied = Batch::apply_all(batches, tables, segments, &mut live);
    for (shard, live) in shards.iter_mut().zip(live) {
        shard.live = live;
    }
    applied
}

fn load_shards(tables: &Tables, manifest: &Manifest) -> Result<Vec<RecoveredShard>> {
    let snapshot = tables.snapshot();
    let mut live: HashMap<u16, LiveBytes> = HashMap::new();
    for entry in snapshot.prefix(&key::live_prefix()) {
        let (key, value) = entry?;
        let damaged = || Error::corrupt("a count of live bytes makes no sense");
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
                "the tables have lost transactions: shard {id} is at {} and was at {floor}",
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
    /// Takes in a record unless the tables have it; answers whether it was taken in.
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
        self.batch.absorb(record.id, &record.changes);
        Ok(true)
    }

    /// Makes sure that the journal did not end before the tables do: what they have was synced in
    /// the journal first.
    fn check_complete(&self) -> Result<()> {
        let last = self.last_seen.unwrap_or(self.floor);
        if last < self.progress.sequence { Err(self.incomplete(last + 1)) } else { Ok(()) }
    }

    fn incomplete(&self, sequence: u64) -> Error {
        Error::corrupt(format!(
            "the journal is damaged: it lacks transactions of shard {} about {sequence}; the \
             tables are at {}",
            self.id, self.progress.sequence
        ))
        .hint("restore the folder from a copy; acknowledged transactions may be missing")
    }
}

impl Recovered {
    /// A number no segment has had.
    fn next_segment(&self) -> u32 {
        let last = self.found.segments.last().map(|segment| segment.id);
        last.max((self.end.group > 1).then_some(self.end.segment)).map_or(0, |last| last + 1)
    }
}

/// Fills the table of segments; answers the one to go on writing in.
fn take_stock(
    options: &Options,
    folder: &Path,
    recovered: &Recovered,
    table: &SegmentTable,
) -> Option<Segment> {
    let end = &recovered.end;
    let last = recovered.replayable.iter().find(|segment| segment.id == end.segment);
    let current = last.filter(|segment| can_go_on(options, folder, segment, end)).cloned();
    for segment in &recovered.found.segments {
        let is_used = (segment.id, BLOCK_BYTES) < (end.segment, end.offset);
        if is_used || current.as_ref().is_some_and(|current| current.id == segment.id) {
            table.note(segment.id, segment.capacity);
        } else {
            // Prepared, or half prepared, and never used. One that stays is deleted next time.
            let _ = options.disk.delete(&folder.join(file_name(segment.id)));
        }
    }
    for shard in &recovered.shards {
        table.count(&shard.live, std::iter::empty());
    }
    current
}

/// The spare files that can become segments: those of another length go, as a store may be opened with
/// segments of another.
fn take_spares(options: &Options, folder: &Path, found: &Found) -> Vec<u32> {
    let (kept, others): (Vec<FoundSegment>, Vec<FoundSegment>) =
        found.spares.iter().partition(|spare| spare.capacity == options.segment_bytes);
    for spare in others {
        // One that stays is deleted next time.
        let _ = options.disk.delete(&folder.join(spare_name(spare.id)));
    }
    kept.into_iter().map(|spare| spare.id).collect()
}

/// Whether groups can be written where the last one ended. A crash may have come between the making
/// of a segment and its header, without which nothing in it would be read back, or between them and
/// their syncs, after which it could be lost with all that is written to it.
fn can_go_on(options: &Options, folder: &Path, segment: &Segment, end: &Position) -> bool {
    let has_header = segment.capacity > end.offset && segment.has_header().unwrap_or(false);
    let is_unused = end.offset == BLOCK_BYTES;
    has_header && (!is_unused || segment.make_durable(&options.disk, folder).is_ok())
}

fn start_shard(core: &Arc<Core>, shard: &RecoveredShard) -> std::io::Result<JoinHandle<()>> {
    let id = shard.id;
    let shard = Shard::new(Arc::clone(core), id, shard.progress);
    std::thread::Builder::new().name(format!("nacre-shard-{id}")).spawn(move || shard.run())
}

fn start_committer(core: &Arc<Core>, live: Vec<LiveBytes>) -> std::io::Result<JoinHandle<()>> {
    let applying = Applying::start(Arc::clone(core), live)?;
    let committer = Committer::new(Arc::clone(core), applying);
    std::thread::Builder::new().name("nacre-commit".into()).spawn(move || committer.run())
}

/// The threads of an engine: of the shards, the committer, the upkeep.
type Threads = (Vec<JoinHandle<()>>, JoinHandle<()>, JoinHandle<Upkeep>);

fn start_threads(
    core: &Arc<Core>,
    shards: Vec<RecoveredShard>,
    checkpoint: Position,
) -> std::io::Result<Threads> {
    let started =
        shards.iter().map(|shard| start_shard(core, shard)).collect::<std::io::Result<_>>()?;
    let live = shards.into_iter().map(|shard| shard.live).collect();
    let committer = start_committer(core, live)?;
    let upkeep = Upkeep::new(Arc::clone(core), checkpoint);
    let upkeep =
        std::thread::Builder::new().name("nacre-upkeep".into()).spawn(move || upkeep.run())?;
    Ok((started, committer, upkeep))
}

/// Has threads end whose engine is not to be: one could not be started.
fn stop_threads(core: &Core) {
    core.queues.iter().for_each(|queue| queue.close());
    core.journal.close();
    core.upkeep.close();
}

fn start(
    options: &Options,
    lock: File,
    tables: Tables,
    manifest: Manifest,
    recovered: Recovered,
) -> Result<Opened> {
    let folder = options.path.join(JOURNAL);
    let (health, counters) = (Arc::<Health>::default(), Arc::<Counters>::default());
    counters.replayed.add(recovered.replayed);
    let segments = Arc::new(SegmentTable::new(Arc::clone(&options.disk), folder.clone()));
    let failed = |error: std::io::Error| errors::io("starting the engine", &error);

    let next_id = recovered.next_segment();
    let current = take_stock(options, &folder, &recovered, &segments);
    let spares = take_spares(options, &folder, &recovered.found);
    let source = SegmentSource::start(
        Arc::clone(&options.disk),
        folder,
        options.segment_bytes,
        next_id,
        spares,
    )
    .map_err(failed)?;
    let (segment, position) = match current {
        Some(segment) => (segment, recovered.end),
        None => {
            let segment = source.take(BLOCK_BYTES * 2, Fill::Zeros).map_err(failed)?;
            let position = Position { segment: segment.id, offset: BLOCK_BYTES, ..recovered.end };
            (segment, position)
        }
    };
    let shard_count = recovered.shards.len();
    // All that was replayed is in the tables.
    let visibility = Arc::new(Visibility::new(position.group - 1, Arc::clone(&health)));
    let journal = Journal::new(
        Arc::clone(&segments),
        source,
        End { segment, position, replayed_bytes: recovered.replayed_bytes },
        Arc::clone(&health),
        Arc::clone(&counters),
        Arc::clone(&options.clock),
    );
    let core = Arc::new(Core {
        folder: options.path.clone(),
        disk: Arc::clone(&options.disk),
        tables,
        journal,
        segments,
        queues: (0..shard_count).map(|_| Queue::default()).collect(),
        classes: Arc::clone(&options.classes),
        clock: Arc::clone(&options.clock),
        space: Space::new(
            Arc::clone(&options.disk),
            options.path.clone(),
            Arc::clone(&options.clock),
            options.reserve_bytes,
        ),
        watchers: Arc::default(),
        visibility,
        health,
        counters,
        upkeep: UpkeepSignal::default(),
    });
    let (shards, committer, upkeep) = start_threads(&core, recovered.shards, manifest.checkpoint)
        .map_err(|error| {
        stop_threads(&core);
        failed(error)
    })?;
    Ok(Opened { core, shards, committer, upkeep, lock })
}
