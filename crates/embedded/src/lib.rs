//! The engine that keeps objects in one directory of one machine.
//!
//! ```text
//! submit ── reads ──────────────────────────────► tables (only what is synced)
//!    └── (queue) ─► shard: run ─► journal ─► committer: write, sync ─► reply
//!                                                                  └─► applier: tables
//! ```
//!
//! Objects are spread over *shards*, which run transactions in order over the tables and what is not yet in
//! them: what is brief on the thread of whoever asks, if the shard is idle, all else on a thread of its own. What a transaction does to the tables is one record of
//! the *journal*; many records, of all shards, become durable with one sync of the *committer*, one
//! more thread, while the shards run on and the *applier*, another, tells the tables of the last. Large payloads stay
//! in the journal, whose segments are kept as long as something refers to them; everything else
//! lives in the *tables*, a log-structured merge tree. An acknowledgement means synced, and so does
//! everything any reply tells.
//!
//! | folder or file | holds |
//! | --- | --- |
//! | `engine`, `options`, `opening`, `core` | the engine as others see it; how it starts |
//! | `shards`, `queue`, `shard`, `recent`, `commit`, `committer`, `applier`, `batch`, `visibility` | the way of a transaction |
//! | `view/` | what a transaction sees and does: stream, map, attributes, snapshots |
//! | `layers`, `gaps`, `known`, `change_set`, `tables/`, `key`, `key_hashes`, `value`, `head` | entries: merged, encoded, kept |
//! | `journal/` | records, groups, segments, recovery, inventory |
//! | `upkeep`, `checkpoints`, `compaction`, `payload_owners`, `manifest`, `space` | checkpoints and room |
//! | `scrub/` | finding damage before somebody meets it |
//! | `salvage/` | saving what can be read of a damaged directory |
//! | `watch`, `stats`, `health`, `disk` | watchers, counts, failure, the seam to the disk |
//!
//! A directory holds `MANIFEST` and its copy, `LOCK`, `journal/` and `tree/`, the tables.

mod applier;
mod batch;
mod change_set;
mod checkpoints;
mod codec;
mod commit;
mod committer;
mod compaction;
mod core;
mod disk;
mod engine;
mod errors;
#[cfg(test)]
mod fuzz_tests;
mod gaps;
mod head;
mod health;
mod journal;
mod key;
mod key_hashes;
mod known;
mod layers;
mod manifest;
mod opening;
mod options;
mod payload_owners;
mod queue;
mod recent;
mod salvage;
mod scrub;
mod shard;
mod shards;
mod space;
mod stats;
mod tables;
mod trail;
mod upkeep;
mod upkeep_signal;
mod value;
mod view;
mod visibility;
mod watch;

pub use disk::{Create, Disk, DiskFile, RealDisk};
pub use engine::EmbeddedEngine;
pub use journal::{DEFAULT_SEGMENT_BYTES, MIN_SEGMENT_BYTES};
pub use options::{
    DEFAULT_CACHE_BYTES, DEFAULT_MEMTABLE_BYTES, DEFAULT_SHARDS, MAX_QUEUED_BYTES, MAX_SHARDS,
    Options,
};
pub use salvage::{LinkedDisk, Salvaged, SegmentFiles, salvage};
pub use scrub::{
    Damage, MAX_STEP_DAMAGES, SCRUB_STEP_BYTES, SCRUB_STEP_ENTRIES, ScrubCursor, ScrubStep,
};
pub use space::DEFAULT_RESERVE_BYTES;
pub use stats::{GroupStats, Stats};
pub use watch::MAX_WATCHES;
