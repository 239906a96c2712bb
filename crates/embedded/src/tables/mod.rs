//! The tables: all synced entries of the engine, sorted by key, in a log-structured merge tree.
//!
//! New entries go to a memtable. When it is large enough for a file, it is *sealed*, and a new one
//! begins. One thread flushes sealed memtables to files, another merges files ([`maintenance`]).
//! The tables have no journal of their own. After a crash, the engine's journal is replayed from a
//! checkpoint on, to restore the entries that were not in files. A checkpoint says that all entries
//! before it are in files.
//!
//! **Invariants:**
//! - Only synced transactions are written to the tables.
//! - A seal never falls within a batch, and always includes the [deferred entries](DeferredEntries)
//!   of the sealed batches. One of them is the sequence number that each shard has reached.
//! - So the files hold a prefix of every shard's records, and say which prefix. A snapshot of the
//!   tables also holds such a prefix.

mod deferred_entries;
mod list_copy;
mod lists;
mod maintenance;
mod open_snapshots;
mod removed;
mod row_cache;
mod snapshot;
mod unfinished;

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_tree::compaction::Leveled;
use lsm_tree::config::{
    BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
    RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, DescriptorTable, InternalValue,
    SequenceNumberCounter, Slice, ValueType,
};
use nacre_object::{Error, Result};

use crate::entry::key::Key;
use crate::entry::value::Value;
use crate::errors;
use deferred_entries::DeferredEntries;
pub(crate) use list_copy::check_copy;
pub(crate) use lists::{check_list, listed_files};
use maintenance::Maintenance;
use open_snapshots::OpenSnapshots;
use removed::Files;
use row_cache::RowCache;
pub(crate) use snapshot::TableSnapshot;

/// Open table files.
const MAX_TABLE_FILES: usize = 128;
/// The folder of table files in the folder of a tree.
pub(crate) const FILES_FOLDER: &str = "tables";
/// An idle engine flushes its memtable early if the memtable has at least the full size divided by
/// this.
const WORTH_A_FILE: u64 = 16;

/// The tables of an engine.
pub(crate) struct Tables {
    shared: Arc<Shared>,
    maintenance: Maintenance,
    mended: Option<Error>,
}

/// What the tables, their threads and their snapshots share.
struct Shared {
    folder: PathBuf,
    tree: AnyTree,
    merging: Arc<Leveled>,
    /// The next sequence number, for batches and for the tree's own changes.
    numbers: SequenceNumberCounter,
    open_snapshots: OpenSnapshots,
    rows: RowCache,
    /// Locked while a batch is written, so that no seal and no snapshot falls within the batch.
    writing: Mutex<DeferredEntries>,
    /// The version of the tree whose list of files is in the spare copy on disk
    /// ([`list_copy`]). The lock is held while the spare copy is written.
    copied_version: Mutex<u64>,
    /// Bytes held in memory and not sealed.
    unsealed_bytes: AtomicU64,
    memtable_bytes: u64,
}

/// A file of sorted entries, written once.
#[derive(Debug)]
pub(crate) struct TableFile<'a> {
    /// Files are numbered in the order they were made.
    pub number: u64,
    pub path: &'a Path,
    /// xxh3 of all of it.
    pub checksum: u128,
}

impl Tables {
    /// Opens the tables in `folder`, or makes new ones.
    ///
    /// # Errors
    /// `Corrupt` if existing tables cannot be read back.
    pub fn open(folder: &Path, cache_bytes: u64, memtable_bytes: u64) -> Result<Self> {
        let mended = list_copy::mend(folder)?;
        let numbers = SequenceNumberCounter::default();
        let open = || config(folder, cache_bytes, numbers.clone()).open();
        // For some damage the tree panics instead of returning an error.
        let tree = match catch_unwind(AssertUnwindSafe(open)) {
            Ok(result) => result.map_err(|error| errors::tables(&error))?,
            Err(_) => return Err(Error::corrupt("the tables cannot be opened")),
        };
        // Make the list of files durable: a process that crashed after writing it may not have
        // synced it. The journal does not replay entries that are in files, so no file may be lost.
        sync_folders(folder)
            .and_then(|()| list_copy::store(folder))
            .map_err(|error| errors::io(format!("syncing {}", folder.display()), &error))?;
        // The first snapshot is not numbered 0, because it would see nothing.
        numbers.set(tree.get_highest_seqno().unwrap_or_default() + 1);
        let shared = Arc::new(Shared {
            folder: folder.into(),
            copied_version: Mutex::new(tree.current_version().id()),
            tree,
            merging: Arc::default(),
            open_snapshots: OpenSnapshots::starting_at(numbers.get()),
            rows: RowCache::new(),
            numbers,
            writing: Mutex::default(),
            unsealed_bytes: AtomicU64::new(0),
            memtable_bytes,
        });
        Ok(Self { maintenance: Maintenance::new(Arc::clone(&shared)), shared, mended })
    }

    /// Starts the threads that flush and merge files. `on_written` is called after each flush.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn start(&self, on_written: impl Fn() + Send + 'static) -> io::Result<()> {
        self.maintenance.start(on_written)
    }

    /// Waits until all sealed entries are written. After that no files are written or merged any
    /// more.
    pub fn stop(&self) {
        self.maintenance.stop();
    }

    /// Makes all files of the tables, and their names, survive a crash.
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn sync_all(&self) -> Result<()> {
        sync_tree(self.folder())
            .map_err(|error| errors::io(format!("syncing {}", self.folder().display()), &error))
    }

    /// Repairs the list of files from its copy, or the copy from the list.
    ///
    /// # Errors
    /// `Unavailable` while files are flushed or merged, because that replaces both; `Corrupt` if
    /// both are damaged.
    pub fn mend_list(&self) -> Result<()> {
        self.maintenance.mend_list()
    }

    /// The damage that the opening found in the list of files and repaired from the list's copy.
    pub fn mended(&self) -> Option<&Error> {
        self.mended.as_ref()
    }

    /// The folder of the tables.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Calls `visit` for each table file numbered above `after`, in order, until `visit` breaks. No
    /// file is deleted meanwhile.
    ///
    /// # Errors
    /// Any error of `visit`.
    pub fn visit_files(
        &self,
        after: Option<u64>,
        mut visit: impl FnMut(&TableFile<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let version = self.shared.tree.current_version();
        let mut tables: Vec<_> = version.iter_tables().collect();
        tables.retain(|table| after.is_none_or(|after| table.id() > after));
        tables.sort_by_key(|table| table.id());
        for table in tables {
            let checksum = table.checksum().into_u128();
            let file = TableFile { number: table.id(), path: &table.path, checksum };
            if visit(&file)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns a view of the tables as they are now. Its deferred entries are possibly outdated.
    pub fn snapshot(&self) -> TableSnapshot {
        TableSnapshot {
            number: self.shared.open_snapshots.latest(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// A view of the tables as they are now, including deferred entries.
    pub fn snapshot_with_deferred(&self) -> TableSnapshot {
        let mut deferred = self.shared.lock_writing();
        self.shared.write_deferred(&mut deferred);
        self.snapshot()
    }

    /// Merges all files if they have many tombstones and there is space for the result. An idle
    /// store would otherwise keep deleted entries forever, because only new writes cause other
    /// merges.
    pub fn merge_away_removed(&self, free_bytes: u64) {
        let tree = &self.shared.tree;
        let version = tree.current_version();
        let files = Files {
            bytes: self.bytes(),
            entries: version.iter_tables().map(|table| table.metadata.item_count).sum(),
            removals: tree.tombstone_count(),
        };
        if files.are_worth_merging(free_bytes) {
            self.maintenance.ask_for_whole_merge(version.id());
        }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.shared.tree.disk_space()
    }

    pub fn batch(&self, entries: usize) -> TableBatch<'_> {
        TableBatch {
            tables: self,
            entries: Vec::with_capacity(entries),
            deferred: DeferredEntries::default(),
            scratch: Vec::new(),
        }
    }

    /// Whether the memtable has reached its bound.
    pub fn is_full(&self) -> bool {
        self.shared.unsealed_bytes.load(Ordering::Relaxed) >= self.shared.memtable_bytes
    }

    /// Flushes the memtable on the caller's thread if it is full. For callers that have not called
    /// [`Self::start`].
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn write_if_full(&self) -> Result<()> {
        if !self.is_full() {
            return Ok(());
        }
        self.seal();
        self.write_sealed()
    }

    /// Inserts an entry that was saved from damaged tables, with its old sequence number. The
    /// tables show it to readers only after they are opened again.
    pub fn restore(&self, entry: InternalValue) {
        let _writing = self.shared.lock_writing();
        let memtable = self.shared.tree.active_memtable();
        memtable.insert(entry);
        self.shared.unsealed_bytes.store(memtable.size(), Ordering::Relaxed);
    }

    /// Whether the memtable is so large that an idle engine flushes it.
    pub fn is_worth_a_file(&self) -> bool {
        let held = self.shared.unsealed_bytes.load(Ordering::Relaxed);
        held >= self.shared.memtable_bytes / WORTH_A_FILE
    }

    /// Seals the memtable: the flush thread will write everything applied so far to a file. Returns
    /// the number of the seal.
    pub fn seal(&self) -> u64 {
        let mut deferred = self.shared.lock_writing();
        self.shared.write_deferred(&mut deferred);
        self.shared.tree.rotate_memtable();
        self.shared.unsealed_bytes.store(0, Ordering::Relaxed);
        self.maintenance.note_sealed()
    }

    /// The last seal before which everything is in files, which survive a crash.
    pub fn written(&self) -> u64 {
        self.maintenance.written()
    }

    /// Waits until all entries that were applied before a seal are in files.
    ///
    /// # Errors
    /// Any error of the disk; the tables are unusable then.
    pub fn wait_until_written(&self, seal: u64) -> Result<()> {
        self.maintenance.wait_until_written(seal)
    }

    /// Waits while too many sealed memtables wait to be flushed, or too many files to be merged.
    ///
    /// # Errors
    /// Any error of the disk; the tables are unusable then.
    pub fn wait_for_room(&self) -> Result<()> {
        self.maintenance.wait_for_room()
    }

    /// Whether sealed memtables wait for disk space.
    pub fn waits_for_room(&self) -> bool {
        self.maintenance.waits_for_room()
    }

    /// Checks whether more entries may be written to the tables.
    ///
    /// # Errors
    /// `Exhausted` if the disk is full and too many memtables wait in memory for disk space.
    pub fn admit(&self) -> Result<()> {
        self.maintenance.admit()
    }

    /// Resumes flushes that met a full disk, if `free_bytes` are enough for them. Resumes merges if
    /// the disk `has_room`.
    pub fn go_on_after_full(&self, free_bytes: u64, has_room: bool) {
        self.maintenance.go_on_after_full(free_bytes, has_room);
    }

    /// Flushes sealed memtables on the caller's thread. For callers that have not called
    /// [`Self::start`].
    ///
    /// # Errors
    /// Any error of the disk; the tables are unusable then.
    pub fn write_sealed(&self) -> Result<()> {
        self.maintenance.write_now()
    }
}

impl Shared {
    /// Durably stores a copy of the tree's list of files, unless the present list was copied
    /// already.
    fn store_list_copy(&self) -> io::Result<()> {
        let mut copied = self.copied_version.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.tree.current_version().id();
        if *copied != version {
            list_copy::store(&self.folder)?;
            *copied = version;
        }
        Ok(())
    }

    fn lock_writing(&self) -> MutexGuard<'_, DeferredEntries> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a batch. The caller must hold the lock `writing`, so that a snapshot sees all of the
    /// batch or nothing.
    fn write(&self, entries: impl IntoIterator<Item = StoredEntry>) {
        let number = self.numbers.next();
        let memtable = self.tree.active_memtable();
        for (key, value) in entries {
            self.rows.note_change(&key, number + 1);
            let entry = match value {
                Some(value) => InternalValue::from_components(key, value, number, ValueType::Value),
                None => InternalValue::new_tombstone(key, number),
            };
            memtable.insert(entry);
        }
        self.unsealed_bytes.store(memtable.size(), Ordering::Relaxed);
        self.open_snapshots.advance_to(number + 1);
    }

    /// The caller holds the lock.
    fn write_deferred(&self, deferred: &mut DeferredEntries) {
        if !deferred.is_empty() {
            self.write(deferred.drain());
        }
    }
}

/// Syncs the names in a folder and in the folders in it.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Syncs a folder and everything in it.
fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

fn config(folder: &Path, cache_bytes: u64, numbers: SequenceNumberCounter) -> Config {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    // The first levels have few files. Their filters and indexes are held in memory whole (some MiB
    // at most). The filters and indexes of deeper levels are read in parts. The whole filter of one
    // 64 MiB file would fill the cache, and nearly every look-up would read and verify a filter
    // again. (Measured with whole filters and 1,000,000 records: appends took three times as long.)
    let (held, divided) =
        (PinningPolicy::new([true, true, false]), PinningPolicy::new([false, false, true]));
    // Do not use the tree's own counter of visible sequence numbers: it would show a batch to
    // readers before all of it is written.
    Config::new(folder, numbers, SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(cache_bytes)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(MAX_TABLE_FILES))))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .filter_policy(FilterPolicy::new([bloom]))
        .filter_block_pinning_policy(held.clone())
        .index_block_pinning_policy(held)
        .filter_block_partitioning_policy(divided.clone())
        .index_block_partitioning_policy(divided)
}

/// An entry as it is stored; a deletion where there is no value.
type StoredEntry = (Key, Option<Slice>);

/// Entries applied together.
pub(crate) struct TableBatch<'a> {
    tables: &'a Tables,
    entries: Vec<StoredEntry>,
    deferred: DeferredEntries,
    scratch: Vec<u8>,
}

impl TableBatch<'_> {
    pub fn put(&mut self, key: Key, value: &Value) {
        let stored = value.encode(&key, &mut self.scratch);
        self.entries.push((key, Some(stored)));
    }

    pub fn delete(&mut self, key: Key) {
        self.entries.push((key, None));
    }

    /// Puts or deletes an entry that is written only with the next seal.
    pub fn defer(&mut self, key: Key, value: Option<Value>) {
        self.deferred.note(key, value);
    }

    /// Applies the batch. Later snapshots see all of it, but deferred entries only through
    /// [`Tables::snapshot_with_deferred`].
    pub fn commit(self) {
        let shared = &self.tables.shared;
        let mut deferred = shared.lock_writing();
        shared.write(self.entries);
        deferred.absorb(self.deferred);
    }
}
