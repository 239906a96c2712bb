//! How to open an engine.

use std::path::PathBuf;
use std::sync::Arc;

use nacre_clock::Clock;
use nacre_object::{ClassHost, Error, Result};

use crate::disk::{Disk, RealDisk};
use crate::journal::segment::BLOCK_BYTES;
use crate::journal::{DEFAULT_SEGMENT_BYTES, MIN_SEGMENT_BYTES};
use crate::pace::{Pace, Unpaced};
use crate::space::DEFAULT_RESERVE_BYTES;

/// The memory for cached blocks of the tables. It is small, because the kernel caches the files
/// too, and a process that hosts an idle engine should be small.
pub const DEFAULT_CACHE_BYTES: u64 = 8 * 1024 * 1024;
/// How many bytes of entries the memtable holds before it is written to a file. A larger memtable
/// means fewer merges of files: with a quarter of this size, merges took a sixth of all CPU time
/// under small writes. An idle engine writes its memtable earlier.
pub const DEFAULT_MEMTABLE_BYTES: u64 = 32 * 1024 * 1024;
/// The number of shards of a new directory; each is a thread that runs transactions. Two are enough
/// to keep the disk busy. With more, methods of classes can use more cores.
pub const DEFAULT_SHARDS: usize = 4;
/// The largest number of shards. Each is a thread, and the number of a shard is part of keys in the
/// tables.
pub const MAX_SHARDS: usize = 256;
/// The bytes of all requests that are queued or running, over all shards. Further requests wait
/// until there is space.
pub const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// How to open an engine; [`Options::new`] has defaults for everything else.
#[derive(Clone)]
pub struct Options {
    /// The directory; it is made if it is not there.
    pub path: PathBuf,
    /// The number of shards, the threads among which objects are spread. An existing directory
    /// keeps the number with which it was made.
    pub shards: usize,
    /// Runs the methods of classes.
    pub classes: Arc<dyn ClassHost>,
    /// The clock for the times of changes.
    pub clock: Arc<dyn Clock>,
    /// The file system for the journal and the manifest. Tests inject faults here.
    pub disk: Arc<dyn Disk>,
    /// Memory for blocks of the tables, in bytes.
    pub cache_bytes: u64,
    /// Memory for entries not yet in a file of tables, in bytes.
    pub memtable_bytes: u64,
    /// Length of a new journal segment, in bytes.
    pub segment_bytes: u32,
    /// Free disk space in bytes below which the store must not grow.
    pub reserve_bytes: u64,
    /// Limits the rate of compaction.
    pub pace: Arc<dyn Pace>,
}

impl Options {
    /// An engine in `path` with default sizes on the machine's disk.
    pub fn new(
        path: impl Into<PathBuf>,
        classes: Arc<dyn ClassHost>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            path: path.into(),
            shards: DEFAULT_SHARDS,
            classes,
            clock,
            disk: Arc::new(RealDisk),
            cache_bytes: DEFAULT_CACHE_BYTES,
            memtable_bytes: DEFAULT_MEMTABLE_BYTES,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            reserve_bytes: DEFAULT_RESERVE_BYTES,
            pace: Arc::new(Unpaced),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(Error::invalid(format!("a store cannot have {} shards", self.shards))
                .hint(format!("use 1 to {MAX_SHARDS}")));
        }
        if self.segment_bytes < MIN_SEGMENT_BYTES || !self.segment_bytes.is_multiple_of(BLOCK_BYTES)
        {
            return Err(Error::invalid(format!(
                "a segment cannot have {} bytes",
                self.segment_bytes
            ))
            .hint(format!("use at least {MIN_SEGMENT_BYTES} and a multiple of {BLOCK_BYTES}")));
        }
        Ok(())
    }
}
