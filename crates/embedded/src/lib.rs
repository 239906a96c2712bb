//! The engine that keeps objects in one directory of one machine.
//!
//! ```text
//! submit ── reads ──────────────────────────────► tables (only what is synced)
//!    └── (queue) ─► shard: run ─► journal ─► committer: write, sync ─► reply
//!                                                                  └─► applier: tables
//! ```
//!
//! Objects are spread over *shards*. A shard runs the transactions of its objects in order. It
//! reads the tables, and on top of them the changes that the tables do not have yet. If the shard
//! is idle, a transaction that should take a fraction of a millisecond runs on the caller's thread.
//! Any other transaction runs on the shard's own thread.
//!
//! The changes of a transaction are one record of the *journal*. The *committer*, a thread, makes
//! the records of all shards durable with one sync. The *applier*, another thread, then writes the
//! changes to the *tables*, a log-structured merge tree. Large payloads stay in the journal. A
//! segment (file) of the journal is kept as long as a table entry refers to a payload in it.
//!
//! **Invariant:** a change is acknowledged only after it is synced, and a reply reveals only synced
//! changes.
//!
//! | folder or file | holds |
//! | --- | --- |
//! | `engine`, `options`, `opening/`, `core` | the engine's interface; how it starts |
//! | `transaction/` | how a transaction runs: queue, shard, committer, applier |
//! | `view/` | what a transaction sees and does: stream, map, attributes, snapshots |
//! | `entry/` | entries of the tables: their encoding, and what a shard caches of them |
//! | `tables/` | the log-structured merge tree |
//! | `journal/` | records, groups, segments, recovery, inventory |
//! | `upkeep/`, `manifest`, `space` | checkpoints, compaction, and space on the disk |
//! | `scrub/` | finding damage before a reader meets it |
//! | `salvage/` | saving what can be read of a damaged directory |
//! | `watch`, `stats`, `health`, `disk` | watchers, counts, failure, the trait for the disk |
//!
//! A directory holds `MANIFEST` and its copy, `LOCK`, `journal/` and `tree/`, the tables.

mod core;
mod disk;
mod engine;
mod entry;
mod errors;
#[cfg(test)]
mod fuzz_tests;
mod health;
mod journal;
mod manifest;
mod opening;
mod options;
mod pace;
mod salvage;
mod scrub;
mod space;
mod stats;
mod tables;
mod transaction;
mod upkeep;
mod view;
mod watch;

pub use disk::{Create, Disk, DiskFile, RealDisk};
pub use engine::EmbeddedEngine;
pub use journal::{DEFAULT_SEGMENT_BYTES, MIN_SEGMENT_BYTES};
pub use options::{
    DEFAULT_CACHE_BYTES, DEFAULT_MEMTABLE_BYTES, DEFAULT_SHARDS, MAX_QUEUED_BYTES, MAX_SHARDS,
    Options,
};
pub use pace::{Pace, Unpaced};
pub use salvage::{LinkedDisk, Salvaged, SegmentFiles, salvage};
pub use scrub::{
    Damage, MAX_STEP_DAMAGES, SCRUB_STEP_BYTES, SCRUB_STEP_ENTRIES, ScrubCursor, ScrubStep,
};
pub use space::DEFAULT_RESERVE_BYTES;
pub use stats::{GroupStats, Stats};
pub use watch::MAX_WATCHES;
