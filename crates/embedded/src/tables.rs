//! The tables: everything that is not in flight, sorted, on fjall.
//!
//! **Invariant:** only synced transactions are applied, each batch with the sequence it brings its
//! shard to, so the tables are always the result of a prefix of every shard's journal. fjall's own
//! journal is not synced per commit: what it loses in a crash is replayed from ours.

use std::fs::File;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode,
    Readable, Slice,
};
use nacre_object::{Error, Result};

use crate::errors;
use crate::key::{Key, after_prefix};
use crate::table_files::check_before_opening;
use crate::value::Value;

/// fjall's journals together; they only bridge the time to the next flush. Its minimum.
const MAX_TABLE_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// Threads that flush and compact. With more than one, fjall keeps one free for flushes and that
/// one spins while the others compact.
const WORKER_THREADS: usize = 1;
/// Open table files.
const MAX_TABLE_FILES: usize = 128;

/// The share of its bound that entries held in memory must have reached to be worth a file of their own.
const WORTH_A_FILE: u64 = 16;

const KEYSPACE: &str = "nacre";

/// The tables of an engine.
#[derive(Clone)]
pub(crate) struct Tables {
    folder: PathBuf,
    database: Database,
    keyspace: Keyspace,
    /// Bytes held in memory from which on an idle engine has them written to a file.
    worth_a_file: u64,
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
    /// Opens the tables in `folder`, or makes them.
    ///
    /// # Errors
    /// `Corrupt` if what is there cannot be read back.
    pub fn open(folder: &Path, cache_bytes: u64, memtable_bytes: u64) -> Result<Self> {
        check_before_opening(folder)?;
        let worth_a_file = memtable_bytes / WORTH_A_FILE;
        let open = || -> fjall::Result<Self> {
            let database = Database::builder(folder)
                .cache_size(cache_bytes)
                .manual_journal_persist(true)
                .max_journaling_size(MAX_TABLE_JOURNAL_BYTES)
                .worker_threads(WORKER_THREADS)
                .max_cached_files(Some(MAX_TABLE_FILES))
                .open()?;
            let options = || keyspace_options(memtable_bytes);
            let keyspace = database.keyspace(KEYSPACE, options)?;
            Ok(Self { folder: folder.into(), database, keyspace, worth_a_file })
        };
        // Some damage makes fjall panic rather than say so.
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(result) => result.map_err(|error| errors::tables(&error)),
            Err(_) => Err(Error::corrupt("the tables cannot be opened")),
        }
    }

    /// Makes everything there is survive a crash, names included: fjall does not see to all of that
    /// when it makes a folder.
    ///
    /// # Errors
    /// What the disk says.
    pub fn sync_all(&self) -> Result<()> {
        self.persist()?;
        sync_tree(&self.folder)
            .map_err(|error| errors::io(format!("syncing {}", self.folder.display()), &error))
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Hands the files numbered above `after` to `visit`, in order, until it says to stop. None is
    /// deleted meanwhile.
    ///
    /// # Errors
    /// What `visit` says.
    pub fn visit_files(
        &self,
        after: Option<u64>,
        mut visit: impl FnMut(&TableFile<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let version = self.keyspace.tree.current_version();
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

    /// A view of the tables as they are now.
    pub fn snapshot(&self) -> TableSnapshot {
        TableSnapshot { snapshot: self.database.snapshot(), keyspace: self.keyspace.clone() }
    }

    /// Bytes on disk: table files, and fjall's journals.
    pub fn bytes(&self) -> u64 {
        // What cannot be said counts as nothing: this is for the eye.
        self.database.disk_space().unwrap_or_default()
    }

    pub fn batch(&self, entries: usize) -> TableBatch {
        TableBatch {
            // Handed to the kernel at once: if only the process dies, the tables still know how far
            // they had come, and a journal damaged at its very end is told from one torn there.
            batch: OwnedWriteBatch::with_capacity(self.database.clone(), entries)
                .durability(Some(PersistMode::Buffer)),
            keyspace: self.keyspace.clone(),
            scratch: Vec::new(),
        }
    }

    /// Has what is held in memory written to a file in the background, if it is worth one, which gives the
    /// memory back and leaves the next start less to read.
    ///
    /// # Errors
    /// What the disk says; the tables are unusable then.
    pub fn flush(&self) -> Result<()> {
        if self.keyspace.tree.active_memtable().size() < self.worth_a_file {
            return Ok(());
        }
        self.keyspace.rotate_memtable().map(drop).map_err(|error| errors::tables(&error))
    }

    /// Makes what was applied until now survive a crash.
    ///
    /// # Errors
    /// What the disk says; the tables are unusable then.
    pub fn persist(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(|error| errors::tables(&error))
    }
}

/// Syncs every file and folder in a folder, and it.
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

fn keyspace_options(memtable_bytes: u64) -> KeyspaceCreateOptions {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(memtable_bytes)
        .manual_journal_persist(true)
        .filter_policy(FilterPolicy::new([bloom]))
}

/// Entries applied together.
pub(crate) struct TableBatch {
    batch: OwnedWriteBatch,
    keyspace: Keyspace,
    scratch: Vec<u8>,
}

impl TableBatch {
    pub fn put(&mut self, key: Key, value: &Value) {
        let stored = value.encode(&key, &mut self.scratch);
        self.batch.insert(&self.keyspace, key, stored);
    }

    pub fn delete(&mut self, key: Key) {
        self.batch.remove(&self.keyspace, key);
    }

    /// # Errors
    /// What the disk says; the tables are unusable then.
    pub fn commit(self) -> Result<()> {
        self.batch.commit().map_err(|error| errors::tables(&error))
    }
}

/// The tables as they were at one moment.
pub(crate) struct TableSnapshot {
    snapshot: fjall::Snapshot,
    keyspace: Keyspace,
}

impl TableSnapshot {
    /// # Errors
    /// `Corrupt` if the entry, or the table it is in, is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let stored =
            self.snapshot.get(&self.keyspace, key).map_err(|error| errors::tables(&error))?;
        stored.map(|stored| Value::decode(key, &stored)).transpose()
    }

    /// Entries whose keys start with `prefix`, from either end.
    pub fn prefix(
        &self,
        prefix: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Value)>> + use<> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range((Bound::Included(prefix), end))
    }

    /// Entries in a range of keys, from either end.
    pub fn range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Value)>> + use<> {
        self.stored_range(range).map(|entry| {
            let (key, stored) = entry?;
            let value = Value::decode(&key, &stored)?;
            Ok((key, value))
        })
    }

    /// Entries in a range of keys as they are stored, unchecked.
    pub fn stored_range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = Result<(Key, Slice)>> + use<> {
        let entries = self.snapshot.range::<&[u8], _>(&self.keyspace, range);
        entries.map(|entry| entry.into_inner().map_err(|error| errors::tables(&error)))
    }
}
