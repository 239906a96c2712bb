//! Helpers of the tests, above all a disk in memory that fails, fills up and loses unsynced data.

#![allow(dead_code, reason = "each test uses its part")]

pub mod contents;
pub mod ledger;
pub mod power;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::SystemTime;

use bytes::Bytes;
use nacre_clock::{Random, SystemClock};
use nacre_conformance::TestClasses;
use nacre_conformance::wait::eventually;
use nacre_embedded::{Create, Disk, DiskFile, EmbeddedEngine, MIN_SEGMENT_BYTES, Options};
use nacre_object::{ObjectId, Op, OpResult, Reply, Request, Result, Store};

/// A crash may tear writes between sectors, because disks write whole sectors.
const SECTOR: usize = 512;

/// Some transactions' worth of entries.
const MEMTABLE_BYTES: u64 = 8 * 1024;

/// More than any test writes.
const ENDLESS_MEMTABLE_BYTES: u64 = 1024 * 1024 * 1024;

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>, Arc<Gate>);

/// Where syncs wait while they are held.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is closed, and how many wait.
    state: Mutex<(bool, usize)>,
    moved: Condvar,
}

/// Syncs wait until this is dropped.
#[derive(Debug)]
pub struct HeldSyncs(Arc<Gate>);

impl HeldSyncs {
    /// Returns once a sync waits.
    pub async fn wait_for_one(&self) {
        eventually("a call is held", async || self.0.state.lock().unwrap().1 > 0).await;
    }
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.state.lock().unwrap().0 = false;
        self.0.moved.notify_all();
    }
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        let mut state = self.moved.wait_while(state, |(closed, _)| *closed).unwrap();
        state.1 -= 1;
    }
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<PathBuf, Arc<Mutex<FileState>>>,
    plan: Plan,
    syncs: u64,
    writes: u64,
    allocations: u64,
    free_bytes: Option<u64>,
    /// Files open now, and the most that were at once.
    open: (usize, usize),
}

/// The calls that fail, counted from 1 since the disk was made.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Every sync from this one on fails. As on Linux, the written pages then count as clean: they
    /// can be read until the machine crashes, and no later sync writes them.
    pub fail_syncs_from: Option<u64>,
    /// This write fails.
    pub fail_write: Option<u64>,
    /// These allocations find the disk full.
    pub full_for_allocations: Option<(u64, u64)>,
    /// Nothing works any more: the machine has crashed.
    pub crashed: bool,
}

#[derive(Debug, Clone, Default)]
struct FileState {
    current: Vec<u8>,
    synced: Vec<u8>,
    /// First bytes of sectors written since the last sync.
    dirty: Vec<usize>,
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: Arc<Mutex<FileState>>,
}

impl SimDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn set(&self, plan: Plan) {
        self.state().plan = plan;
    }

    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state().free_bytes = free_bytes;
    }

    /// Makes syncs of files wait until the returned value is dropped.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.1.state.lock().unwrap().0 = true;
        HeldSyncs(self.1.clone())
    }

    /// Syncs, writes and allocations so far.
    pub fn counts(&self) -> (u64, u64, u64) {
        let state = self.state();
        (state.syncs, state.writes, state.allocations)
    }

    /// The most files that were open at once.
    pub fn most_open(&self) -> usize {
        self.state().open.1
    }

    /// Crashes the machine: this disk stops working. Returns the disk as it is after the restart.
    /// Each unsynced sector survives by chance.
    pub fn crash(&self, random: &mut Random) -> SimDisk {
        let mut state = self.state();
        state.plan.crashed = true;
        let mut files: Vec<_> = state.files.iter().collect();
        files.sort_by_key(|(path, _)| (*path).clone());
        let survivors = files.into_iter().map(|(path, file)| {
            (path.clone(), Arc::new(Mutex::new(file.lock().unwrap().after_crash(random))))
        });
        let files = survivors.collect();
        SimDisk(Arc::new(Mutex::new(State { files, ..State::default() })), Arc::default())
    }

    /// The same content on another disk.
    pub fn copy(&self) -> SimDisk {
        let state = self.state();
        let copy = |(path, file): (&PathBuf, &Arc<Mutex<FileState>>)| {
            (path.clone(), Arc::new(Mutex::new(file.lock().unwrap().clone())))
        };
        let files = state.files.iter().map(copy).collect();
        SimDisk(Arc::new(Mutex::new(State { files, ..State::default() })), Arc::default())
    }

    /// Files whose names end in `suffix`, with their lengths, sorted by name.
    pub fn files(&self, suffix: &str) -> Vec<(PathBuf, usize)> {
        let state = self.state();
        let mut files: Vec<_> = state
            .files
            .iter()
            .filter(|(path, _)| path.to_string_lossy().ends_with(suffix))
            .map(|(path, file)| (path.clone(), file.lock().unwrap().current.len()))
            .collect();
        files.sort();
        files
    }

    /// What is in a file; nothing if there is none.
    pub fn content(&self, path: &str) -> Vec<u8> {
        let state = self.state();
        let file = state.files.get(Path::new(path));
        file.map(|file| file.lock().unwrap().current.clone()).unwrap_or_default()
    }

    pub fn byte(&self, path: &Path, at: usize) -> u8 {
        self.state().files[path].lock().unwrap().current[at]
    }

    pub fn flip(&self, path: &Path, at: usize, mask: u8) {
        self.state().files[path].lock().unwrap().current[at] ^= mask;
    }

    /// The name of a file on this disk: its path without the store's folder, because a test may
    /// open the store in another folder after a crash.
    fn place(path: &Path) -> PathBuf {
        let name = path.file_name().expect("files have names");
        match path.parent().and_then(Path::file_name) {
            Some(folder) if folder == "journal" => Path::new("journal").join(name),
            _ => PathBuf::from(name),
        }
    }

    fn work(&self, count: impl FnOnce(&mut State) -> bool) -> io::Result<()> {
        let mut state = self.state();
        if state.plan.crashed {
            return Err(io::Error::other("crashed"));
        }
        if count(&mut state) { Err(io::Error::other("injected")) } else { Ok(()) }
    }
}

impl FileState {
    /// Has the sector at `start` survive a crash.
    fn keep(&mut self, start: usize) {
        let end = (start + SECTOR).min(self.current.len());
        if self.synced.len() < end {
            self.synced.resize(end, 0);
        }
        self.synced[start..end].copy_from_slice(&self.current[start..end]);
    }

    fn after_crash(&self, random: &mut Random) -> Self {
        let mut file = self.clone();
        for start in std::mem::take(&mut file.dirty) {
            if random.one_in(2) {
                file.keep(start);
            }
        }
        file.current = file.synced.clone();
        file
    }
}

impl Disk for SimDisk {
    fn create_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state();
        let folder = folder.file_name().map(Path::new);
        let names = state.files.keys().filter(|path| path.parent() == folder);
        Ok(names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
    }

    fn open(&self, path: &Path, create: Create) -> io::Result<Arc<dyn DiskFile>> {
        self.work(|_| false)?;
        let mut state = self.state();
        let path = Self::place(path);
        let file = match (state.files.get(&path), create) {
            (Some(file), _) => file.clone(),
            (None, Create::Never) => return Err(io::ErrorKind::NotFound.into()),
            (None, Create::IfMissing) => state.files.entry(path).or_default().clone(),
        };
        state.open.0 += 1;
        state.open.1 = state.open.1.max(state.open.0);
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.work(|_| false)?;
        let mut state = self.state();
        let file = state.files.remove(&Self::place(from)).ok_or(io::ErrorKind::NotFound)?;
        state.files.insert(Self::place(to), file);
        Ok(())
    }

    fn delete(&self, path: &Path) -> io::Result<()> {
        self.work(|_| false)?;
        self.state()
            .files
            .remove(&Self::place(path))
            .map(drop)
            .ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.work(|_| false)
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.state().free_bytes.unwrap_or(u64::MAX))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.state().open.0 -= 1;
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let file = self.file.lock().unwrap();
        let start = offset as usize;
        let found = file.current.get(start..start + buffer.len());
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.work(|state| {
            state.writes += 1;
            state.plan.fail_write.is_some_and(|first| state.writes >= first)
        })?;
        let mut file = self.file.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        if file.current.len() < end {
            file.current.resize(end, 0);
        }
        file.current[start..end].copy_from_slice(data);
        file.dirty.extend((start / SECTOR * SECTOR..end).step_by(SECTOR));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.1.pass();
        let synced = self.disk.work(|state| {
            state.syncs += 1;
            state.plan.fail_syncs_from.is_some_and(|from| state.syncs >= from)
        });
        let mut file = self.file.lock().unwrap();
        let dirty = std::mem::take(&mut file.dirty);
        if synced.is_ok() {
            let length = file.current.len();
            file.synced.resize(length, 0);
            dirty.into_iter().for_each(|start| file.keep(start));
        }
        synced
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        let mut is_full = false;
        self.disk.work(|state| {
            state.allocations += 1;
            let full = state.plan.full_for_allocations;
            is_full = full.is_some_and(|(from, to)| (from..to).contains(&state.allocations));
            false
        })?;
        if is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.lock().unwrap().current.resize(length as usize, 0);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().current.len() as u64)
    }
}

/// Options with segments and memtables so small that they fill up all the time.
pub fn options(folder: &Path) -> Options {
    let clock = Arc::new(SystemClock::default());
    let mut options = Options::new(folder, Arc::new(TestClasses), clock);
    options.segment_bytes = MIN_SEGMENT_BYTES;
    options.memtable_bytes = MEMTABLE_BYTES;
    options.shards = 2;
    options
}

/// An engine whose journal is on `disk` and whose tables are in `folder`.
pub fn open_on(disk: &SimDisk, folder: &Path) -> Result<EmbeddedEngine> {
    let mut options = options(folder);
    options.disk = Arc::new(disk.clone());
    // A memtable that never fills up: tests copy the tables' folder while the engine is open, so no
    // flush may change it.
    options.memtable_bytes = ENDLESS_MEMTABLE_BYTES;
    EmbeddedEngine::open(options)
}

/// Copies a folder with all that is in it.
pub fn copy_folder(from: &Path, to: &Path) {
    try_to_copy(from, to).unwrap();
}

fn try_to_copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            try_to_copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Copies the folder of an open engine, as a kill would leave it. Nobody must write to the engine.
/// If a flush or merge changes files during the copy, copies again.
pub fn copy_open_folder(from: &Path, to: &Path) {
    loop {
        let before = files_of(from);
        let copied = try_to_copy(from, to);
        if copied.is_ok()
            && before.is_ok_and(|before| files_of(from).is_ok_and(|now| now == before))
        {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
    }
}

/// The files in a folder and when each was changed.
fn files_of(folder: &Path) -> io::Result<BTreeMap<PathBuf, SystemTime>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.append(&mut files_of(&entry.path())?);
        } else {
            files.insert(entry.path(), entry.metadata()?.modified()?);
        }
    }
    Ok(files)
}

pub fn object(name: impl std::fmt::Display) -> ObjectId {
    format!("test/{name}").parse().unwrap()
}

pub async fn submit(store: &dyn Store, object: &ObjectId, ops: Vec<Op>) -> Result<Reply> {
    store.submit(Request::new(object.clone(), ops).unwrap()).await
}

/// The only result of one op.
pub async fn answer(store: &dyn Store, object: &ObjectId, op: Op) -> Result<OpResult> {
    Ok(submit(store, object, vec![op]).await?.results.remove(0))
}

pub fn append(data: impl Into<Bytes>) -> Op {
    Op::Append { data: data.into() }
}

pub fn read_all() -> Op {
    Op::Read { offset: 0, length: u64::MAX }
}
