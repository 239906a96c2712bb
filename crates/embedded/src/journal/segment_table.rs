//! All segments (files) of the journal: reads their payloads, counts the table entries that refer
//! to each segment, and frees segments that no entry refers to.
//!
//! A reader may use an older snapshot of the tables, in which entries still refer to a segment. So
//! a reader takes a [`Pin`] before its snapshot. A segment that no entry refers to is first
//! *retired*. Its file may be deleted once all pins from before its retirement are dropped. But
//! meanwhile a request that clones an object may have read an older snapshot and copied a reference
//! to the segment. The segment's [`Account`] counts such references. If there is a new one, the
//! segment is used again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use bytes::Bytes;
use nacre_object::{Error, Result};

use super::payload_reader::PayloadReader;
use super::released_payloads::{ReleasedPayload, ReleasedPayloads, SegmentReleases};
use crate::disk::{Create, Disk, DiskFile};
use crate::entry::value::{PayloadAddress, Piece, Source};
use crate::errors;
use crate::journal::segment::{Segment, file_name};

/// The number of segment files that are kept open for reading. This covers a working set of some
/// GiB, and is well below the usual limit of 1024 descriptors.
const MAX_OPEN_FILES: usize = 256;

/// Holds back the deletion of every segment that existed when the pin was taken.
#[derive(Debug, Clone)]
pub(crate) struct Pin(#[expect(dead_code, reason = "being held is its whole purpose")] Arc<()>);

/// A pin that a journal record holds on the segments it refers to, until the record's changes are
/// in the tables. If the record is dropped earlier, by a failure or a panic, the pin is never
/// released. So the segments stay until the process ends, and the next opening replays the record.
#[derive(Debug)]
pub(crate) struct RecordPin(Option<Pin>);

impl RecordPin {
    pub fn of(pin: &Pin) -> Self {
        Self(Some(pin.clone()))
    }

    /// Ends the pin, once the tables have the record.
    pub fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for RecordPin {
    fn drop(&mut self) {
        std::mem::forget(self.0.take());
    }
}

/// What is known of one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Length of its file in bytes.
    pub capacity: u32,
    /// Bytes that table entries refer to. Shared bytes count once for each entry.
    pub live_bytes: i64,
    /// How many references to the segment were ever made.
    pub additions: u64,
    state: AccountState,
}

impl Account {
    /// The share of the file's bytes that table entries refer to.
    fn share(&self) -> f64 {
        self.live_bytes as f64 / f64::from(self.capacity)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AccountState {
    #[default]
    Used,
    Retired,
    /// Compaction could not empty the segment, for example because a payload failed its checksum.
    /// The segment is kept until no table entry refers to it.
    LeftAlone,
}

/// The segments.
#[derive(Debug)]
pub(crate) struct SegmentTable {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    accounts: Mutex<Accounts>,
    open: RwLock<HashMap<u32, OpenFile>>,
    clock: AtomicU64,
}

#[derive(Debug)]
struct Accounts {
    segments: BTreeMap<u32, Account>,
    /// The reference counter that new pins share. Whenever segments are retired, it is replaced by
    /// a new one.
    current: Arc<()>,
    retired: VecDeque<Retired>,
    released: ReleasedPayloads,
}

#[derive(Debug)]
struct Retired {
    segment: u32,
    additions: u64,
    /// Alive while a pin exists that was taken between the previous retirement and this one.
    /// Earlier pins need no check here: they keep earlier segments in the queue, and segments leave
    /// the queue in order.
    pin: Weak<()>,
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<dyn DiskFile>,
    last_used: AtomicU64,
}

impl SegmentTable {
    pub fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        let accounts = Accounts {
            segments: BTreeMap::new(),
            current: Arc::new(()),
            retired: VecDeque::new(),
            released: ReleasedPayloads::default(),
        };
        Self {
            disk,
            folder,
            accounts: Mutex::new(accounts),
            open: RwLock::default(),
            clock: AtomicU64::new(0),
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn pin(&self) -> Pin {
        Pin(Arc::clone(&self.accounts().current))
    }

    /// Adds a segment whose file is open to the table.
    pub fn add(&self, segment: &Segment) {
        self.note(segment.id, segment.capacity);
        self.remember_file(segment.id, Arc::clone(&segment.file));
    }

    /// Adds a segment to the table. Its file is opened when something in it is read.
    pub fn note(&self, id: u32, capacity: u32) {
        self.accounts().segments.entry(id).or_default().capacity = capacity;
    }

    /// Adds `deltas` to the live bytes of segments, and counts the references in `added`.
    pub fn count(&self, deltas: &HashMap<u32, i64>, added: impl Iterator<Item = u32>) {
        let mut accounts = self.accounts();
        for (segment, delta) in deltas {
            accounts.segments.entry(*segment).or_default().live_bytes += delta;
        }
        for segment in added {
            accounts.segments.entry(segment).or_default().additions += 1;
        }
    }

    /// Remembers payloads that were released by their owners, the table entries that the payloads'
    /// records name. The tables must contain the releases already.
    pub fn note_released(&self, payloads: impl Iterator<Item = (u32, ReleasedPayload)>) {
        let mut accounts = self.accounts();
        payloads.for_each(|(segment, payload)| accounts.released.note(segment, payload));
    }

    /// The remembered releases of payloads in a segment.
    pub fn released_of(&self, segment: u32) -> SegmentReleases {
        self.accounts().released.of(segment)
    }

    /// All segments, oldest first.
    pub fn all(&self) -> Vec<(u32, Account)> {
        self.accounts().segments.iter().map(|(id, account)| (*id, *account)).collect()
    }

    /// Opens the segments from `first` on. Returns them oldest first.
    ///
    /// # Errors
    /// `Corrupt` if one is missing.
    pub fn open_from(&self, first: u32) -> Result<Vec<Segment>> {
        let known = self.all().into_iter().filter(|(id, _)| *id >= first);
        known.map(|(id, account)| self.open(id, account.capacity)).collect()
    }

    /// Opens the segment with this number. `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt` if its file is missing.
    pub fn open_one(&self, id: u32) -> Result<Option<Segment>> {
        let capacity = self.accounts().segments.get(&id).map(|account| account.capacity);
        capacity.map(|capacity| self.open(id, capacity)).transpose()
    }

    fn open(&self, id: u32, capacity: u32) -> Result<Segment> {
        let file = self.file(id).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Error::corrupt(format!("the journal's file {} is missing", file_name(id)))
            }
            _ => errors::io(format!("opening {}", file_name(id)), &error),
        })?;
        Ok(Segment { id, file, capacity })
    }

    /// Retires segments before `end` that nothing refers to.
    pub fn retire_dead(&self, end: u32) {
        let mut accounts = self.accounts();
        let Accounts { segments, current, retired, .. } = &mut *accounts;
        let waiting = retired.len();
        for (id, account) in segments.range_mut(..end) {
            if account.live_bytes == 0 && account.state != AccountState::Retired {
                account.state = AccountState::Retired;
                let (segment, additions) = (*id, account.additions);
                retired.push_back(Retired { segment, additions, pin: Arc::downgrade(current) });
            }
        }
        if retired.len() > waiting {
            *current = Arc::new(());
        }
    }

    /// Removes retired segments that no reader can be using any more, and returns them.
    pub fn take_dead(&self) -> Vec<(u32, Account)> {
        let mut accounts = self.accounts();
        let mut dead = Vec::new();
        while accounts.retired.front().is_some_and(|front| front.pin.strong_count() == 0) {
            let front = accounts.retired.pop_front().expect("there is a front");
            let Some(account) = accounts.segments.get_mut(&front.segment) else { continue };
            if account.live_bytes == 0 && account.additions == front.additions {
                dead.push((front.segment, *account));
                accounts.segments.remove(&front.segment);
                accounts.released.forget(front.segment);
            } else {
                account.state = AccountState::Used;
            }
        }
        drop(accounts);
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        dead.iter().for_each(|(id, _)| {
            open.remove(id);
        });
        dead
    }

    /// How many segments before `end` are in use, minus twice the number of segments that their
    /// live bytes would fill. Live bytes are those that table entries refer to. The result is
    /// negative if the segments are more than half full on average.
    pub fn sparse(&self, end: u32) -> f64 {
        let accounts = self.accounts();
        let used = accounts.segments.range(..end).map(|(_, account)| account);
        // A segment whose file is missing takes no space.
        let used =
            used.filter(|account| account.state == AccountState::Used && account.capacity > 0);
        used.map(|account| 1.0 - 2.0 * account.share()).sum()
    }

    /// The segment before `end` with the smallest share of live bytes, if that share is below
    /// `max_share`.
    pub fn sparsest(&self, end: u32, max_share: f64) -> Option<(u32, Account)> {
        self.accounts()
            .segments
            .range(..end)
            .filter(|(_, account)| account.state == AccountState::Used && account.live_bytes > 0)
            .filter(|(_, account)| account.share() < max_share)
            .min_by(|a, b| a.1.share().total_cmp(&b.1.share()))
            .map(|(id, account)| (*id, *account))
    }

    /// Stops offering a segment to compaction, because compaction has failed to empty it. `before`
    /// is the segment's account before that attempt. Does nothing if new entries have referred to
    /// the segment since then.
    pub fn leave_alone(&self, segment: u32, before: &Account) {
        let mut accounts = self.accounts();
        let account = accounts.segments.get_mut(&segment);
        // A segment that became empty meanwhile may be retired already.
        let is_stuck = |account: &&mut Account| {
            account.live_bytes != 0 && account.additions == before.additions
        };
        if let Some(account) = account.filter(is_stuck) {
            account.state = AccountState::LeftAlone;
        }
    }

    fn remember_file(&self, segment: u32, file: Arc<dyn DiskFile>) {
        let last_used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(segment, OpenFile { file, last_used });
        if open.len() > MAX_OPEN_FILES {
            let used =
                |(id, file): (&u32, &OpenFile)| (file.last_used.load(Ordering::Relaxed), *id);
            if let Some((_, oldest)) = open.iter().map(used).min() {
                open.remove(&oldest);
            }
        }
    }

    fn file(&self, segment: u32) -> io::Result<Arc<dyn DiskFile>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(&segment) {
            found.last_used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            return Ok(Arc::clone(&found.file));
        }
        drop(open);
        let file = self.disk.open(&self.folder.join(file_name(segment)), Create::Never)?;
        self.remember_file(segment, Arc::clone(&file));
        Ok(file)
    }

    /// Returns the bytes of these pieces, in order.
    ///
    /// # Errors
    /// `Corrupt` if a payload fails its checksum, or its file is missing.
    pub fn read_pieces(&self, pieces: &[Piece]) -> Result<Bytes> {
        if let [Piece { source: Source::Fresh(data) | Source::Unsynced(_, data), skip, take, .. }] =
            pieces
        {
            return Ok(data.slice(*skip as usize..(*skip + *take) as usize));
        }
        let length = pieces.iter().map(|piece| piece.take as usize).sum();
        let mut out = vec![0; length];
        PayloadReader::new(self).read_pieces(pieces, &mut out)?;
        Ok(out.into())
    }

    /// Copies a payload into `out`, which must have the payload's length.
    ///
    /// # Errors
    /// `Corrupt` if the payload fails its checksum, or its file is missing.
    pub(super) fn read_payload_into(&self, address: &PayloadAddress, out: &mut [u8]) -> Result<()> {
        let place = || format!("{} at byte {}", file_name(address.segment), address.offset);
        self.file(address.segment)
            .and_then(|file| file.read_at(u64::from(address.offset), out))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::corrupt(format!(
                    "the journal's file {} is missing",
                    file_name(address.segment)
                ))
                .hint("restore the file from a copy; `nacre scrub` names the objects that need it"),
                _ => errors::io(format!("reading {}", place()), &error),
            })?;
        if crc32c::crc32c(out) != address.crc {
            return Err(Error::corrupt(format!("a payload fails its checksum: {}", place()))
                .hint(errors::FIND_DAMAGE));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn table_of(segments: u32) -> SegmentTable {
        let table = SegmentTable::new(Arc::new(RealDisk), PathBuf::from("/nowhere"));
        for id in 0..segments {
            table.accounts().segments.entry(id).or_default().capacity = 100;
        }
        table
    }

    fn dead_of(table: &SegmentTable) -> Vec<u32> {
        table.take_dead().into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn a_retired_segment_can_be_freed_once_its_pins_are_dropped() {
        let table = table_of(2);
        let before = table.pin();
        table.retire_dead(2);
        let after = table.pin();
        assert_eq!(dead_of(&table), []);
        drop(before);
        assert_eq!(dead_of(&table), [0, 1]);
        drop(after);
    }

    #[test]
    fn a_segment_that_is_retired_later_also_waits_for_earlier_pins() {
        let table = table_of(1);
        let before = table.pin();
        table.retire_dead(1);
        table.accounts().segments.entry(1).or_default().capacity = 100;
        table.retire_dead(2);
        assert_eq!(dead_of(&table), []);
        drop(before);
        assert_eq!(dead_of(&table), [0, 1]);
    }

    #[test]
    fn a_pin_protects_segments_that_are_retired_after_an_empty_retirement() {
        let table = table_of(1);
        table.count(&HashMap::from([(0, 10)]), [0].into_iter());
        let reading = table.pin();
        table.retire_dead(1);
        assert_eq!(dead_of(&table), []);
        table.count(&HashMap::from([(0, -10)]), [].into_iter());
        table.retire_dead(1);
        assert_eq!(dead_of(&table), [], "who reads began while it was referred to");
        drop(reading);
        assert_eq!(dead_of(&table), [0]);
    }

    #[test]
    fn a_reference_copied_by_a_clone_keeps_a_retired_segment() {
        let table = table_of(1);
        let cloning = table.pin();
        table.retire_dead(1);
        table.count(&HashMap::from([(0, 10)]), [0].into_iter());
        table.count(&HashMap::from([(0, -10)]), [].into_iter());
        drop(cloning);
        assert_eq!(dead_of(&table), [], "it had a reference since");
        table.retire_dead(1);
        assert_eq!(dead_of(&table), [0]);
    }

    #[test]
    fn a_dropped_record_pin_keeps_its_segments_until_the_process_ends() {
        for is_applied in [true, false] {
            let table = table_of(1);
            let record = RecordPin::of(&table.pin());
            table.retire_dead(1);
            assert_eq!(dead_of(&table), []);
            if is_applied {
                record.let_go();
            } else {
                drop(record);
            }
            assert_eq!(dead_of(&table).len(), usize::from(is_applied));
        }
    }

    #[test]
    fn a_segment_that_could_not_be_emptied_is_freed_once_nothing_refers_to_it() {
        let table = table_of(2);
        table.count(&HashMap::from([(0, 10), (1, 10)]), [0, 1].into_iter());
        let before: HashMap<_, _> = table.all().into_iter().collect();
        // Segment 0 became empty before compaction gave it up; segment 1 becomes empty later.
        table.count(&HashMap::from([(0, -10)]), [].into_iter());
        table.leave_alone(0, &before[&0]);
        table.leave_alone(1, &before[&1]);
        assert!(table.sparsest(2, 0.5).is_none());
        table.retire_dead(2);
        assert_eq!(dead_of(&table), [0]);
        table.count(&HashMap::from([(1, -10)]), [].into_iter());
        table.retire_dead(2);
        assert_eq!(dead_of(&table), [1]);
    }

    #[test]
    fn the_sparsest_segment_has_the_smallest_share_of_live_bytes() {
        let table = table_of(4);
        table.count(&HashMap::from([(0, 90), (1, 20), (2, 30), (3, 1)]), [].into_iter());
        let sparsest = |share| table.sparsest(3, share).map(|(id, _)| id);
        assert_eq!(sparsest(0.5), Some(1));
        let (_, before) = table.sparsest(3, 0.5).unwrap();
        table.leave_alone(1, &before);
        assert_eq!(sparsest(0.5), Some(2));
        assert_eq!(sparsest(0.1), None);
        let (_, before) = table.sparsest(3, 0.5).unwrap();
        table.count(&HashMap::from([(2, 5)]), [2].into_iter());
        table.leave_alone(2, &before);
        assert_eq!(sparsest(0.5), Some(2), "what came to it meanwhile can be moved");
    }

    #[test]
    fn a_segment_whose_file_is_missing_does_not_change_the_count_of_sparse_segments() {
        let table = table_of(9);
        // Entries still refer to it.
        table.count(&HashMap::from([(9, 10)]), [9].into_iter());
        assert_eq!(table.sparse(10), 9.0);
    }
}
