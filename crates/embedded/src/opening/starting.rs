//! Starts an engine on a store that was read back.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nacre_object::Result;

use super::recovered::{Recovered, RecoveredShard};
use super::{JOURNAL, Opened};
use crate::core::Core;
use crate::errors;
use crate::health::Health;
use crate::journal::recovery::{Found, FoundSegment};
use crate::journal::segment::{BLOCK_BYTES, Salt, Segment, file_name, spare_name};
use crate::journal::segment_source::{Fill, SegmentSource};
use crate::journal::segment_table::SegmentTable;
use crate::journal::{End, Journal, Position};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::space::Space;
use crate::stats::Counters;
use crate::tables::Tables;
use crate::transaction::applier::Applying;
use crate::transaction::batch::LiveBytes;
use crate::transaction::committer::Committer;
use crate::transaction::queue::Queue;
use crate::transaction::read_barrier::ReadBarrier;
use crate::transaction::shard::Shard;
use crate::transaction::shards::Shards;
use crate::upkeep::Upkeep;
use crate::upkeep::checkpoints::Checkpoints;
use crate::upkeep::upkeep_signal::UpkeepSignal;

/// Fills the table of segments; returns the one to go on writing in.
fn take_stock(
    options: &Options,
    folder: &Path,
    recovered: &Recovered,
    salt: Salt,
    table: &SegmentTable,
) -> Option<Segment> {
    let end = &recovered.end;
    let last = recovered.replayable.iter().find(|segment| segment.id == end.segment);
    let current = last.filter(|last| can_go_on(options, folder, last, end, salt)).cloned();
    for segment in &recovered.found.segments {
        let is_used = (segment.id, BLOCK_BYTES) < (end.segment, end.offset);
        if is_used || current.as_ref().is_some_and(|current| current.id == segment.id) {
            table.note(segment.id, segment.capacity);
        } else {
            // A thread prepared these segments ahead, and no group was written to them. If a
            // deletion fails, the next opening deletes the file.
            let _ = options.disk.delete(&folder.join(file_name(segment.id)));
        }
    }
    for shard in &recovered.shards {
        table.count(&shard.live, std::iter::empty());
    }
    current
}

/// Returns the spare files that can become segments. Deletes those of another length, because the
/// store may now be opened with another segment size.
fn take_spares(options: &Options, folder: &Path, found: &Found) -> Vec<u32> {
    let (kept, others): (Vec<FoundSegment>, Vec<FoundSegment>) =
        found.spares.iter().partition(|spare| spare.capacity == options.segment_bytes);
    for spare in others {
        // If this fails, the next opening deletes the file.
        let _ = options.disk.delete(&folder.join(spare_name(spare.id)));
    }
    kept.into_iter().map(|spare| spare.id).collect()
}

/// Returns whether the engine can append new groups to `segment`. It cannot if a crash left the
/// segment without its header, because recovery would ignore every group in it. A segment without
/// groups is synced first: it may be new and unsynced, and a power cut would then delete it with
/// all later groups.
fn can_go_on(
    options: &Options,
    folder: &Path,
    segment: &Segment,
    end: &Position,
    salt: Salt,
) -> bool {
    let has_header = segment.capacity > end.offset && segment.has_header().unwrap_or(false);
    let is_unused = end.offset == BLOCK_BYTES;
    has_header
        && (!is_unused || segment.make_durable(&options.disk, folder).is_ok())
        && segment.wipe_torn_group(end.offset, salt).is_ok()
}

fn start_committer(core: &Arc<Core>, live: Vec<LiveBytes>) -> std::io::Result<JoinHandle<()>> {
    let applying = Applying::start(Arc::clone(core), live)?;
    let committer = Committer::new(Arc::clone(core), applying);
    std::thread::Builder::new().name("nacre-commit".into()).spawn(move || committer.run())
}

/// The shards, their threads, the committer's thread and the upkeep thread.
type Threads = (Shards, Vec<JoinHandle<()>>, JoinHandle<()>, JoinHandle<Upkeep>);

fn start_threads(
    core: &Arc<Core>,
    shards: Vec<RecoveredShard>,
    checkpoint: Position,
) -> std::io::Result<Threads> {
    let shard = |shard: &RecoveredShard| Shard::new(Arc::clone(core), shard.id, shard.progress);
    let started = Shards::new(shards.iter().map(shard));
    let shard_threads = started.start(core)?;
    let live = shards.into_iter().map(|shard| shard.live).collect();
    let committer = start_committer(core, live)?;
    let signal = Arc::clone(&core.upkeep);
    core.tables.start(move || signal.ask())?;
    let upkeep = Upkeep::new(Arc::clone(core), checkpoint);
    let upkeep =
        std::thread::Builder::new().name("nacre-upkeep".into()).spawn(move || upkeep.run())?;
    Ok((started, shard_threads, committer, upkeep))
}

/// Ends the threads that were started, after another thread could not be started.
fn stop_threads(core: &Core) {
    core.queues.iter().for_each(|queue| queue.close());
    core.journal.close();
    core.upkeep.close();
    core.tables.stop();
}

pub(super) fn start(
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
    let current = take_stock(options, &folder, &recovered, manifest.salt, &segments);
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
    let read_barrier = Arc::new(ReadBarrier::new(position.group - 1, Arc::clone(&health)));
    let journal = Journal::new(
        Arc::clone(&segments),
        source,
        End { segment, position, salt: manifest.salt, replayed_bytes: recovered.replayed_bytes },
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
        pace: Arc::clone(&options.pace),
        clock: Arc::clone(&options.clock),
        space: Space::new(
            Arc::clone(&options.disk),
            options.path.clone(),
            Arc::clone(&options.clock),
            options.reserve_bytes,
        ),
        watchers: Arc::default(),
        read_barrier,
        health,
        counters,
        checkpoints: Checkpoints::default(),
        upkeep: Arc::new(UpkeepSignal::default()),
    });
    let started = start_threads(&core, recovered.shards, manifest.checkpoint);
    let (shards, shard_threads, committer, upkeep) = started.map_err(|error| {
        stop_threads(&core);
        failed(error)
    })?;
    Ok(Opened { core, shards, shard_threads, committer, upkeep, mended: Vec::new(), lock })
}
