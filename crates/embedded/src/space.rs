//! Watches free disk space, and refuses growth while there is only enough left for removals and
//! background work.
//!
//! A full disk must neither stop the tables in the middle of a flush nor prevent a removal. So
//! while less space is free than a reserve, transactions that may grow the store are refused with
//! `Exhausted`. Reads, removals and the background work that frees space go on. A method call, or a
//! write of zeros, may grow or shrink the store. The engine runs it first. If it grew the store,
//! the engine refuses it before anything is written. The free space is measured repeatedly, so
//! writing resumes by itself.
//!
//! Some writes may use part of the reserve, because without them nothing large could be removed.
//! Small method calls may use a quarter: a log is sealed by such calls before it is removed.
//! Changes of objects in the system's pool may use half: the removal of a log commits to a map
//! there, and the event that a node is full is stored there.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nacre_clock::Clock;
use nacre_object::{Error, ObjectId, Op, PoolName, Request, Result};

use crate::disk::Disk;
use crate::errors;
use crate::view::Outcome;

/// The reserve of free space, in bytes. It is enough for flushes of all memtables, the output of a
/// compaction, a segment of the journal and a margin.
pub const DEFAULT_RESERVE_BYTES: u64 = 256 * 1024 * 1024;
/// The most bytes by which a small method call may grow the store.
const SMALL_BYTES: i64 = 1024;
/// How long a measurement of free space is used before the next one. Even a fast disk writes only a
/// fraction of the reserve in this time.
const LOOK_AGAIN_AFTER_MICROS: u64 = 20_000;

/// Measures free disk space and decides what may grow.
#[derive(Debug)]
pub(crate) struct Space {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    reserve_bytes: u64,
    free_bytes: AtomicU64,
    looked_at_micros: AtomicU64,
}

impl Space {
    pub fn new(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        clock: Arc<dyn Clock>,
        reserve_bytes: u64,
    ) -> Self {
        let space = Self {
            disk,
            folder,
            clock,
            reserve_bytes,
            free_bytes: AtomicU64::new(u64::MAX),
            looked_at_micros: AtomicU64::new(0),
        };
        space.look();
        space
    }

    fn look(&self) {
        // If the disk does not say how much space is free, assume that there is enough. Once it is
        // full, a write will fail.
        let free = self.disk.free_bytes(&self.folder).unwrap_or(u64::MAX);
        self.free_bytes.store(free, Ordering::Relaxed);
    }

    /// Measures the free space, unless that was done very recently.
    pub fn look_if_due(&self) {
        let now = self.clock.monotonic().as_micros() as u64;
        let looked_at = self.looked_at_micros.load(Ordering::Relaxed);
        if self.is_low() || now.saturating_sub(looked_at) >= LOOK_AGAIN_AFTER_MICROS {
            self.looked_at_micros.store(now, Ordering::Relaxed);
            self.look();
        }
    }

    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Whether less than the reserve was free at the last measurement.
    pub fn is_low(&self) -> bool {
        self.free_bytes() < self.reserve_bytes
    }

    /// The reserve of free space, in bytes.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes
    }

    /// Checks whether a request's transaction may run.
    ///
    /// # Errors
    /// `Exhausted` if the transaction may grow the store and too little space is free.
    pub fn admit(&self, request: &Request) -> Result<()> {
        self.look_if_due();
        match self.is_low() && !request.ops.iter().all(may_free) {
            true => self.check_left(self.to_be_left(&request.header.object)),
            false => Ok(()),
        }
    }

    /// Checks whether the changes of a transaction that has run may be kept.
    ///
    /// # Errors
    /// `Exhausted` if the changes grow the store and too little space is free.
    pub fn admit_outcome(&self, request: &Request, outcome: &Outcome) -> Result<()> {
        if !self.is_low() {
            return Ok(());
        }
        let is_judged = request.ops.iter().any(|op| matches!(op, Op::Call(_) | Op::Zero { .. }));
        let grown = if is_judged { outcome.changes.growth_bytes() } else { 0 };
        if grown <= 0 && !outcome.is_created {
            return Ok(());
        }
        let to_be_left = self.to_be_left(&request.header.object);
        let is_small = is_judged && grown <= SMALL_BYTES;
        self.check_left(if is_small { to_be_left.min(self.left_by_small()) } else { to_be_left })
    }

    /// How much space must stay free if this object grows.
    fn to_be_left(&self, object: &ObjectId) -> u64 {
        match object.pool == PoolName::system() {
            true => self.reserve_bytes / 2,
            false => self.reserve_bytes,
        }
    }

    fn left_by_small(&self) -> u64 {
        self.reserve_bytes / 4 * 3
    }

    fn check_left(&self, to_be_left: u64) -> Result<()> {
        match self.free_bytes() < to_be_left {
            true => Err(self.used_up()),
            false => Ok(()),
        }
    }

    fn used_up(&self) -> Error {
        let (free, reserve) = (self.free_bytes(), self.reserve_bytes);
        errors::disk_full(format!(
            "{} has only {free} bytes left, and {reserve} are reserved",
            self.folder.display()
        ))
    }
}

/// Whether an op may run while the disk is nearly full, because it need not grow the store.
/// [`Space::admit_outcome`] checks after the op has run whether a method call or a write of zeros
/// grew the store.
fn may_free(op: &Op) -> bool {
    let frees = matches!(
        op,
        Op::Remove
            | Op::RemoveAttribute { .. }
            | Op::MapRemove { .. }
            | Op::MapClear
            | Op::SnapshotRemove { .. }
            | Op::Truncate { .. }
            | Op::Zero { .. }
            | Op::Call(_)
    );
    frees || !op.is_write()
}
