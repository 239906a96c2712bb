//! The threads that keep the tables: one writes what is sealed to files, the other merges files.
//!
//! They are two, as a merge may take seconds and what is sealed is memory that writers wait for. The one
//! that writes waits for nothing but the disk, so whoever waits for it may hold whatever else.
//!
//! **Invariant:** after a failure nothing is written or merged any more, as the tree does not say how far
//! it came; what it has in memory can still be read. Whoever waits is told.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use lsm_tree::AbstractTree;
use nacre_object::{Error, Result};

use super::Shared;
use crate::errors;

/// Seals whose entries are not in a file yet, which is the memory that may be held besides what is not
/// sealed: one is written while another fills.
const MAX_SEALS_WAITING: u64 = 3;
/// Files of the first level, each of which a look-up of what is not there may have to open; past them
/// writers wait for the merges.
const MAX_FIRST_LEVEL_FILES: usize = 30;

/// Length of the files that a merge of all of them makes: as long as others.
const MERGED_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Starts, wakes and stops the threads.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    signals: Arc<Signals>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the threads and those who wait for them tell each other.
#[derive(Debug, Default)]
struct Signals {
    state: Mutex<State>,
    changed: Condvar,
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
    /// The version that came of the last such merge: what was not dropped then, as somebody looks at an earlier
    /// moment, would not be dropped again.
    merged_whole: Option<u64>,
    is_stopping: bool,
    failure: Option<Error>,
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
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Keeper {
    pub fn new(shared: Arc<Shared>) -> Self {
        // Whoever was here before may have left some.
        let state = State { is_merge_due: true, ..State::default() };
        let signals = Arc::new(Signals { state: Mutex::new(state), changed: Condvar::new() });
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

    /// Ends the threads, once what is sealed is written and the merge under way is done.
    pub fn stop(&self) {
        self.signals.set(|state| state.is_stopping = true);
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // Their panics are caught.
            let _ = thread.join();
        }
    }

    /// Says that there is something more to be written; answers the number of the seal.
    pub fn note_sealed(&self) -> u64 {
        let mut state = self.signals.lock();
        state.sealed += 1;
        let seal = state.sealed;
        drop(state);
        self.signals.changed.notify_all();
        seal
    }

    /// Has all files of a version merged with each other, unless it came of that.
    pub fn ask_for_whole_merge(&self, version: u64) {
        self.signals.set(|state| {
            if state.merged_whole != Some(version) {
                (state.is_whole_merge_due, state.is_merge_due) = (true, true);
            }
        });
    }

    pub fn written(&self) -> u64 {
        self.signals.lock().written
    }

    pub fn wait_until_written(&self, seal: u64) -> Result<()> {
        let unwritten = |state: &mut State| state.written < seal && state.failure.is_none();
        self.signals.wait_while(unwritten).check()
    }

    pub fn wait_for_room(&self) -> Result<()> {
        let is_too_much = |state: &mut State| {
            let is_behind = state.sealed - state.written > MAX_SEALS_WAITING
                || state.first_level_files > MAX_FIRST_LEVEL_FILES;
            is_behind && state.failure.is_none() && !state.is_stopping
        };
        self.signals.wait_while(is_too_much).check()
    }

    /// Writes what is sealed, on the caller's thread.
    pub fn write_now(&self) -> Result<()> {
        let worker = Worker { shared: self.shared.clone(), signals: self.signals.clone() };
        worker.write();
        self.signals.lock().check()
    }
}

impl Drop for Keeper {
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
        let has_none = |state: &mut State| state.sealed == state.written && !state.is_stopping;
        loop {
            let state = self.signals.wait_while(has_none);
            if state.sealed == state.written || state.failure.is_some() {
                return;
            }
            drop(state);
            self.write();
            on_written();
        }
    }

    /// Writes everything that is sealed to a file.
    fn write(&self) {
        let seal = self.signals.lock().sealed;
        let tree = &self.shared.tree;
        let written = self.guarded(|| {
            let lock = tree.get_flush_lock();
            tree.flush(&lock, self.evictable()).map(drop)
        });
        self.signals.set(|state| match written {
            Ok(()) => {
                state.written = seal;
                state.is_merge_due = true;
                state.first_level_files = tree.l0_run_count();
            }
            Err(error) => state.failure = Some(error),
        });
    }

    fn merge_until_stopped(&self) {
        let is_idle = |state: &mut State| !state.is_merge_due && !state.is_stopping;
        loop {
            let mut state = self.signals.wait_while(is_idle);
            if state.is_stopping || state.failure.is_some() {
                return;
            }
            state.is_merge_due = false;
            let is_whole = std::mem::take(&mut state.is_whole_merge_due);
            drop(state);
            match is_whole {
                true => self.merge_all(),
                false => self.merge(),
            }
        }
    }

    /// Does one step of what there is to be merged; if it was one, another is due.
    fn merge(&self) {
        let tree = &self.shared.tree;
        let before = tree.current_version().id();
        let strategy = Arc::clone(&self.shared.merging);
        let merged = self.guarded(|| tree.compact(strategy, self.evictable()));
        self.note_merged(merged, |state| {
            state.is_merge_due |= tree.current_version().id() != before;
        });
    }

    /// Merges everything into the last level, where what was removed is dropped.
    fn merge_all(&self) {
        let tree = &self.shared.tree;
        let merged = self.guarded(|| tree.major_compact(MERGED_FILE_BYTES, self.evictable()));
        self.note_merged(merged, |state| {
            state.is_merge_due = true;
            state.merged_whole = Some(tree.current_version().id());
        });
    }

    fn note_merged(&self, merged: Result<()>, change: impl FnOnce(&mut State)) {
        self.signals.set(|state| match merged {
            Ok(()) => {
                change(state);
                state.first_level_files = self.shared.tree.l0_run_count();
            }
            Err(error) => state.failure = Some(error),
        });
    }

    /// The number below which only the last of a key's values is needed.
    fn evictable(&self) -> u64 {
        self.shared.moments.earliest().saturating_sub(1)
    }

    /// Does something to the tree, and lets go of what it replaced.
    fn guarded(&self, work: impl FnOnce() -> lsm_tree::Result<()>) -> Result<()> {
        let work = || {
            work()?;
            let shared = &self.shared;
            // Who looks from now on sees the same as before, elsewhere.
            let writing = shared.lock_writing();
            shared.moments.advance_to(shared.numbers.get());
            drop(writing);
            let mut versions = shared.tree.get_version_history_lock();
            versions.maintenance(&shared.folder, self.evictable())
        };
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => result.map_err(|error| errors::tables_stopped(&error)),
            Err(_) => Err(Error::corrupt("the tables panicked while they wrote or merged files")),
        }
    }
}
