//! The threads that maintain the tables: one flushes sealed memtables to files, the other merges
//! files.
//!
//! A merge may take seconds. Flushes must not wait so long, because sealed memtables take memory
//! and writers wait until it is free. So each job has a thread. The flush thread waits for nothing
//! but the disk. So a caller may hold any lock while it waits for a flush.
//!
//! **Invariant:** after a failure the threads flush and merge nothing more, because the tree does
//! not say how much of the flush or merge it has done. Entries in memory can still be read. Threads
//! that wait get the error.
//!
//! A full disk is not such a failure. The tree changes its list only after it has written all files
//! of a flush or merge, so either can be repeated. Both threads pause until
//! [`Maintenance::go_on_after_full`] finds space. Meanwhile writers go on, and sealed memtables
//! stay in memory; [`Maintenance::admit`] bounds how many.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use lsm_tree::{AbstractTree, AnyTree, SeqNo};
use nacre_object::{Error, ErrorKind, Result};

use super::Shared;
use super::list_copy;
use super::unfinished::NamedFiles;
use crate::errors;

/// The number of sealed memtables that may wait to be flushed; with more, writers wait. It bounds
/// their memory.
const MAX_SEALS_WAITING: u64 = 3;
/// The number of files that the tree's first level may have before writers wait for merges. A
/// look-up of a missing key may have to read each of these files.
const MAX_FIRST_LEVEL_FILES: usize = 30;

/// How long a repair of the list of files waits for a running flush or merge.
const MAX_MEND_WAIT: Duration = Duration::from_secs(10);

/// The sequence number of a snapshot that sees the oldest version of the tree.
const OLDEST: SeqNo = 0;

/// The length of the files that a merge of all files makes, as other merges make them.
const MERGED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Starts, wakes and stops the threads.
pub(super) struct Maintenance {
    shared: Arc<Shared>,
    signals: Arc<Signals>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The state that the threads share with the callers that wait for them.
#[derive(Debug, Default)]
struct Signals {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether a flush waits for disk space. Every transaction reads this, so it is kept outside of
    /// the lock.
    waits_for_room: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The last seal.
    sealed: u64,
    /// The last seal before which everything is in files.
    written: u64,
    /// There may be files to be merged.
    is_merge_due: bool,
    first_level_files: usize,
    /// Whether all files are to be merged with each other.
    is_whole_merge_due: bool,
    /// The version of the tree that the last merge of all files produced. Merging that version
    /// again would drop nothing more.
    merged_whole: Option<u64>,
    is_stopping: bool,
    failure: Option<Error>,
    /// The error of the last flush, if the disk was full. The flush is repeated later.
    no_room_to_write: Option<Error>,
    /// Whether the last merge failed because the disk was full. Merging resumes later.
    is_merge_paused: bool,
    /// Threads that are changing the tree now.
    working: u32,
    named_files: NamedFiles,
}

impl Signals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, mut condition: impl FnMut(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_while(self.lock(), &mut condition);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.waits_for_room.store(state.no_room_to_write.is_some(), Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether writers must wait, because too many sealed memtables wait to be flushed or too many
    /// files wait to be merged.
    fn is_behind(&self) -> bool {
        let has_many_files = self.first_level_files > MAX_FIRST_LEVEL_FILES;
        self.has_many_seals() || has_many_files && !self.is_merge_paused
    }

    fn has_many_seals(&self) -> bool {
        self.sealed - self.written > MAX_SEALS_WAITING
    }

    fn is_writing_due(&self) -> bool {
        self.sealed != self.written && self.no_room_to_write.is_none()
    }

    /// Notes that a step has ended, and why it failed if it did.
    fn end_step(&mut self, tree: &AnyTree, failure: Option<Error>) {
        self.working -= 1;
        match failure {
            None => self.named_files.note(tree),
            failure => self.failure = failure,
        }
    }
}

fn is_full_disk(error: &Error) -> bool {
    error.kind() == ErrorKind::Exhausted
}

impl Maintenance {
    pub fn new(shared: Arc<Shared>) -> Self {
        // An earlier process may have left files to merge.
        let mut state = State { is_merge_due: true, ..State::default() };
        state.named_files.note(&shared.tree);
        let signals = Arc::new(Signals { state: Mutex::new(state), ..Signals::default() });
        Self { shared, signals, threads: Mutex::default() }
    }

    pub fn start(&self, on_written: impl Fn() + Send + 'static) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = || Worker { shared: self.shared.clone(), signals: self.signals.clone() };
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run)
        };
        let (writer, merger) = (worker(), worker());
        threads
            .push(start("nacre-flush", Box::new(move || writer.write_until_stopped(&on_written)))?);
        threads.push(start("nacre-merge", Box::new(move || merger.merge_until_stopped()))?);
        Ok(())
    }

    /// Ends the threads once all sealed entries are written and the running merge is done.
    pub fn stop(&self) {
        self.signals.set(|state| state.is_stopping = true);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // The threads catch their own panics.
            let _ = thread.join();
        }
    }

    /// Notes that another memtable was sealed. Returns the number of the seal.
    pub fn note_sealed(&self) -> u64 {
        let mut state = self.signals.lock();
        state.sealed += 1;
        let seal = state.sealed;
        drop(state);
        self.signals.changed.notify_all();
        seal
    }

    /// Asks for a merge of all files of a version, unless such a merge made that version.
    pub fn ask_for_whole_merge(&self, version: u64) {
        self.signals.set(|state| {
            if state.merged_whole != Some(version) {
                state.is_merge_paused = false;
                (state.is_whole_merge_due, state.is_merge_due) = (true, true);
            }
        });
    }

    pub fn written(&self) -> u64 {
        self.signals.lock().written
    }

    pub fn wait_until_written(&self, seal: u64) -> Result<()> {
        let waits = |state: &mut State| {
            state.written < seal && state.failure.is_none() && state.no_room_to_write.is_none()
        };
        let state = self.signals.wait_while(waits);
        state.check()?;
        match &state.no_room_to_write {
            Some(error) if state.written < seal => Err(error.clone()),
            _ => Ok(()),
        }
    }

    pub fn wait_for_room(&self) -> Result<()> {
        let is_too_much = |state: &mut State| {
            let may_wait = state.failure.is_none() && state.no_room_to_write.is_none();
            may_wait && state.is_behind() && !state.is_stopping
        };
        self.signals.wait_while(is_too_much).check()
    }

    /// Whether sealed entries wait for space on the disk.
    pub fn waits_for_room(&self) -> bool {
        self.signals.waits_for_room.load(Ordering::Relaxed)
    }

    /// Checks whether more entries may be written to the tables.
    ///
    /// # Errors
    /// `Exhausted` if the disk is full and too many memtables wait in memory for disk space.
    pub fn admit(&self) -> Result<()> {
        if !self.waits_for_room() {
            return Ok(());
        }
        let state = self.signals.lock();
        match &state.no_room_to_write {
            Some(error) if state.has_many_seals() => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Resumes flushes and merges that stopped because the disk was full. Flushes resume if more
    /// space is free than the memtables hold, merges if the disk `has_room`. First deletes the
    /// files that the failed flush or merge left.
    pub fn go_on_after_full(&self, free_bytes: u64, has_room: bool) {
        self.signals.set(|state| {
            let is_paused = state.no_room_to_write.is_some() || state.is_merge_paused;
            // Wait for running flushes and merges: a file that one of them is writing would look
            // like a leftover.
            if is_paused && state.working == 0 && state.failure.is_none() {
                self.go_on(state, free_bytes, has_room);
            }
        });
    }

    fn go_on(&self, state: &mut State, free_bytes: u64, has_room: bool) {
        let tree = &self.shared.tree;
        match state.named_files.delete_others(tree, &self.shared.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => state.failure = Some(error),
            // Other errors of the disk may be temporary, so try again later.
            Err(_) => return,
        }
        if free_bytes > tree.get_version_history_lock().memtable_size_sum() {
            state.no_room_to_write = None;
        }
        state.is_merge_paused &= !has_room;
    }

    /// Repairs the list of files or its copy, whichever is damaged. First waits some seconds for a
    /// running flush or merge.
    ///
    /// # Errors
    /// `Unavailable` if the flush or merge still runs; `Corrupt` if both the list and its copy are
    /// damaged; or any error of the disk.
    pub fn mend_list(&self) -> Result<()> {
        let is_busy = |state: &mut State| state.working > 0 && state.failure.is_none();
        let waited =
            self.signals.changed.wait_timeout_while(self.signals.lock(), MAX_MEND_WAIT, is_busy);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        if waited.timed_out() {
            return Err(Error::unavailable(
                "the list of table files cannot be repaired while files are written",
            )
            .hint("try again in some seconds"));
        }
        let folder = &self.shared.folder;
        list_copy::mend(folder)?;
        list_copy::store(folder).map_err(|error| {
            errors::io(format!("repairing the list of table files in {}", folder.display()), &error)
        })
    }

    /// Writes what is sealed, on the caller's thread.
    pub fn write_now(&self) -> Result<()> {
        let worker = Worker { shared: self.shared.clone(), signals: self.signals.clone() };
        worker.write();
        let state = self.signals.lock();
        state.check()?;
        state.no_room_to_write.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What runs on a thread.
struct Worker {
    shared: Arc<Shared>,
    signals: Arc<Signals>,
}

impl Worker {
    fn write_until_stopped(&self, on_written: &dyn Fn()) {
        let has_none = |state: &mut State| !state.is_writing_due() && !state.is_stopping;
        loop {
            let state = self.signals.wait_while(has_none);
            if !state.is_writing_due() || state.failure.is_some() {
                return;
            }
            drop(state);
            if self.write() {
                on_written();
            }
        }
    }

    /// Writes everything that is sealed to a file; returns whether it did.
    fn write(&self) -> bool {
        let mut state = self.signals.lock();
        let seal = state.sealed;
        state.working += 1;
        drop(state);
        let tree = &self.shared.tree;
        let written = self.guarded(|| {
            let lock = tree.get_flush_lock();
            tree.flush(&lock, self.evictable()).map(drop)
        });
        let is_written = written.is_ok();
        self.signals.set(|state| match written {
            Ok(()) => {
                state.end_step(tree, None);
                state.written = seal;
                state.no_room_to_write = None;
                state.is_merge_due = true;
                state.first_level_files = tree.l0_run_count();
            }
            Err(error) if is_full_disk(&error) => {
                state.end_step(tree, None);
                state.no_room_to_write = Some(error);
            }
            Err(error) => state.end_step(tree, Some(error)),
        });
        is_written
    }

    fn merge_until_stopped(&self) {
        let is_idle = |state: &mut State| {
            let is_due = state.is_merge_due && !state.is_merge_paused;
            !is_due && !state.is_stopping
        };
        loop {
            let mut state = self.signals.wait_while(is_idle);
            if state.is_stopping || state.failure.is_some() {
                return;
            }
            state.is_merge_due = false;
            state.working += 1;
            let is_whole = std::mem::take(&mut state.is_whole_merge_due);
            drop(state);
            match is_whole {
                true => self.merge_all(),
                false => self.merge(),
            }
        }
    }

    /// Merges files by one step. If there was something to merge, another step is due.
    fn merge(&self) {
        let tree = &self.shared.tree;
        let before = tree.current_version().id();
        let strategy = Arc::clone(&self.shared.merging);
        let merged = self.guarded(|| tree.compact(strategy, self.evictable()));
        self.note_merged(merged, |state| {
            state.is_merge_due |= tree.current_version().id() != before;
        });
    }

    /// Merges all files into the last level, which drops tombstones.
    fn merge_all(&self) {
        let tree = &self.shared.tree;
        let merged = self.guarded(|| tree.major_compact(MERGED_FILE_BYTES, self.evictable()));
        self.note_merged(merged, |state| {
            state.is_merge_due = true;
            state.merged_whole = Some(tree.current_version().id());
        });
    }

    fn note_merged(&self, merged: Result<()>, change: impl FnOnce(&mut State)) {
        let tree = &self.shared.tree;
        self.signals.set(|state| match merged {
            Ok(()) => {
                state.end_step(tree, None);
                change(state);
                state.first_level_files = tree.l0_run_count();
            }
            Err(error) if is_full_disk(&error) => {
                state.end_step(tree, None);
                (state.is_merge_due, state.is_merge_paused) = (true, true);
            }
            Err(error) => state.end_step(tree, Some(error)),
        });
    }

    /// Returns the sequence number below which only the last value of each key is needed.
    fn evictable(&self) -> u64 {
        self.shared.open_snapshots.earliest().saturating_sub(1)
    }

    /// Runs a flush or a merge, then releases the files and versions that it replaced.
    fn guarded(&self, work: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
        let work = || {
            work()?;
            let shared = &self.shared;
            // Copy the list before the code below releases files that only an older list names.
            shared.store_list_copy()?;
            // Later snapshots find the same entries in the new files.
            let writing = shared.lock_writing();
            shared.open_snapshots.advance_to(shared.numbers.get());
            drop(writing);
            let mut versions = shared.tree.get_version_history_lock();
            // To free a memtable or to delete a file takes milliseconds. All reads and writes of
            // the tables would wait for that, so release them after the lock.
            let released = versions.get_version_for_snapshot(OLDEST);
            versions.maintenance(&shared.folder, self.evictable())?;
            drop(versions);
            drop(released);
            Ok(())
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.map_err(|error| errors::tables_stopped(&error)),
            Err(_) => {
                Err(Error::corrupt("the tables panicked while table files were written or merged"))
            }
        }
    }
}
