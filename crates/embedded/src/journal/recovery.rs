//! Reads the journal back after a crash.
//!
//! Starting at the checkpoint, recovery reads group after group. Each group must carry the next
//! number, and all its records must be whole. At the first group that fails, recovery decides
//! between two cases:
//!
//! - A *torn* group was being written at the crash, and no client got a reply for it. Recovery
//!   drops and overwrites it.
//! - A *damaged* group was synced, and clients may have got replies. A later group proves this,
//!   because groups go to disk one at a time; so does a [mark](SyncMark). Recovery reports
//!   `Corrupt` with the position, and the store does not open.
//!
//! If the process was killed or the machine stopped before the mark was written, there is no such
//! proof. Then damage in the last group looks like a torn write.
//!
//! A readable last group may still be unsynced. The kernel may serve it from memory although the
//! process was killed before the sync, or although the sync failed. After a failed sync the kernel
//! takes the pages for clean, and no later sync writes them. So recovery first writes the last
//! group again, the same bytes at the same offset, and syncs it. Only then are its records used.

use std::io;
use std::path::Path;
use std::sync::Arc;

use nacre_object::{Error, Result};

use crate::disk::{Create, Disk};
use crate::errors;
use crate::journal::Position;
use crate::journal::record::{Payloads, Record, RecordAddress};
use crate::journal::segment::{
    BLOCK_BYTES, GroupHeader, Salt, Segment, SyncMark, file_name, id_in_name, id_in_spare_name,
    round_up_to_block,
};

/// Bytes read at a time in the search for groups after damage.
const SCAN_BYTES: u32 = 1024 * 1024;

/// Files found in the journal's folder.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Oldest first.
    pub segments: Vec<FoundSegment>,
    /// Spare files, by the segments they once were.
    pub spares: Vec<FoundSegment>,
}

/// A segment file in the journal's folder. The file is not kept open, because a store may have more
/// segments than a process may have open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundSegment {
    pub id: u32,
    /// Length of the file in bytes.
    pub capacity: u32,
}

/// Looks at what is in the journal's folder.
pub(crate) fn find_files(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Found> {
    let failed = |error: &io::Error| errors::io(format!("reading {}", folder.display()), error);
    let mut found = Found::default();
    for name in disk.list(folder).map_err(|error| failed(&error))? {
        let (files, id) = match (id_in_spare_name(&name), id_in_name(&name)) {
            (Some(id), _) => (&mut found.spares, id),
            (None, Some(id)) => (&mut found.segments, id),
            (None, None) => continue,
        };
        let file = disk.open(&folder.join(&name), Create::Never);
        let length = file.and_then(|file| file.length()).map_err(|error| failed(&error))?;
        let capacity = u32::try_from(length).map_err(|_| {
            Error::corrupt(format!("{name} has the impossible length of {length} bytes"))
        })?;
        files.push(FoundSegment { id, capacity });
    }
    found.segments.sort_by_key(|segment| segment.id);
    Ok(found)
}

impl Found {
    /// Opens the segments from number `first` on, for a replay.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn open_from(
        &self,
        first: u32,
        disk: &Arc<dyn Disk>,
        folder: &Path,
    ) -> Result<Vec<Segment>> {
        let open = |found: &FoundSegment| {
            let path = folder.join(file_name(found.id));
            let file = disk
                .open(&path, Create::Never)
                .map_err(|error| errors::io(format!("opening {}", path.display()), &error))?;
            Ok(Segment { id: found.id, file, capacity: found.capacity })
        };
        self.segments.iter().filter(|found| found.id >= first).map(open).collect()
    }
}

/// Segments that are read, oldest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub segments: &'a [Segment],
    /// The random number in the headers of their groups.
    pub salt: Salt,
}

impl Reading<'_> {
    /// Calls `visit` for every record from `start` on. Returns the position of the next group to
    /// write.
    ///
    /// **Invariant:** every record given to `visit` survives a crash.
    ///
    /// # Errors
    /// `Corrupt` if a synced group is damaged, or any error of `visit` and of the disk.
    pub fn replay(
        &self,
        start: Position,
        visit: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<Position> {
        let mut end = start;
        let mut next = self.next_group(start)?;
        while let Some(group) = next {
            end = group.end();
            next = self.next_group(end)?;
            // A later group is written only once this one is synced.
            if next.is_none() {
                self.check_nothing_later(end)?;
                self.make_durable(&group)?;
            }
            group.records.into_iter().try_for_each(&mut *visit)?;
        }
        if end == start {
            self.check_nothing_later(end)?;
        }
        Ok(end)
    }

    /// Makes a group and all groups before it durable: writes the group's bytes again, and syncs
    /// its segment and all earlier ones.
    fn make_durable(&self, group: &Group) -> Result<()> {
        let Position { segment: last, offset, .. } = group.position;
        let keep = |segment: &Segment| -> io::Result<()> {
            if segment.id == last {
                segment.file.write_at(u64::from(offset), &group.bytes)?;
            }
            segment.file.sync()
        };
        self.segments.iter().filter(|segment| segment.id <= last).try_for_each(|segment| {
            keep(segment)
                .map_err(|error| errors::io(format!("syncing {}", file_name(segment.id)), &error))
        })
    }

    /// Returns the position of the first unreadable group from `start` up to number `last`, or
    /// `None` if all can be read.
    ///
    /// # Errors
    /// `Corrupt` if the header of a segment is damaged.
    pub fn first_damaged(&self, start: Position, last: u64) -> Result<Option<Position>> {
        let mut at = start;
        while at.group <= last {
            match self.next_group(at)? {
                Some(group) => at = group.end(),
                None => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    /// Reads the group numbered `expected.group`, which is at `expected` or at the front of a later
    /// segment. Returns `None` if there is no whole group with this number.
    fn next_group(&self, expected: Position) -> Result<Option<Group>> {
        for segment in self.segments.iter().filter(|segment| segment.id >= expected.segment) {
            let offset = if segment.id == expected.segment { expected.offset } else { BLOCK_BYTES };
            let position = Position { segment: segment.id, offset, ..expected };
            if let Some(group) = self.whole_group(segment, position)? {
                if offset == BLOCK_BYTES {
                    self.check_header(segment)?;
                }
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    fn check_header(&self, segment: &Segment) -> Result<()> {
        let name = file_name(segment.id);
        match segment.has_header() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::corrupt(format!("the header of {name} is damaged")).hint(
                "restore the folder from a copy; or use the later release of nacre that wrote it",
            )),
            Err(error) => Err(errors::io(format!("reading {name}"), &error)),
        }
    }

    fn whole_group(&self, segment: &Segment, position: Position) -> Result<Option<Group>> {
        let Some(header) = self.group_header(segment, position.offset)? else { return Ok(None) };
        let length = header.length;
        let fits = u64::from(position.offset) + u64::from(length) <= u64::from(segment.capacity);
        if header.number != position.group || !fits || (length as usize) < GroupHeader::BYTES {
            return Ok(None);
        }
        let mut bytes = vec![0; length as usize];
        read(segment, position.offset, &mut bytes)?;
        let at =
            RecordAddress { segment: segment.id, offset: position.offset, group: header.number };
        match read_records(&bytes, at, Payloads::Checked) {
            Ok(records) if records.len() == header.records as usize => {
                Ok(Some(Group { position, bytes, records }))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn group_header(
        &self,
        segment: &Segment,
        offset: u32,
    ) -> Result<Option<GroupHeader>> {
        let mut bytes = vec![0; GroupHeader::BYTES];
        if u64::from(offset) + bytes.len() as u64 > u64::from(segment.capacity) {
            return Ok(None);
        }
        read(segment, offset, &mut bytes)?;
        Ok(GroupHeader::decode(&bytes, segment.id, self.salt))
    }

    /// Checks that nothing after `end` was synced, so that only a torn group can be there.
    fn check_nothing_later(&self, end: Position) -> Result<()> {
        for segment in self.segments.iter().filter(|segment| segment.id >= end.segment) {
            let start = if segment.id == end.segment { end.offset } else { BLOCK_BYTES };
            if let Some((at, proof)) = self.find_proof(segment, start, end.group)? {
                let (damaged, in_file) = (file_name(end.segment), file_name(segment.id));
                return Err(Error::corrupt(format!(
                    "the journal is damaged: group {} at byte {} of {damaged} cannot be read, but \
                     {proof} at byte {at} of {in_file}",
                    end.group, end.offset
                ))
                .hint("restore the folder from a copy; acknowledged transactions may be lost"));
            }
        }
        Ok(())
    }

    /// The first group in `segment` from `start` on that is numbered above `number`.
    pub(super) fn find_later_group(
        &self,
        segment: &Segment,
        start: u32,
        number: u64,
    ) -> Result<Option<(u32, GroupHeader)>> {
        find_block(segment, start, |block| self.later_group(segment, block, number))
    }

    fn later_group(&self, segment: &Segment, block: &[u8], number: u64) -> Option<GroupHeader> {
        let header = GroupHeader::decode(block, segment.id, self.salt);
        header.filter(|header| header.number > number)
    }

    /// Finds a proof, in `segment` from `start` on, that the group numbered `number` was synced.
    fn find_proof(
        &self,
        segment: &Segment,
        start: u32,
        number: u64,
    ) -> Result<Option<(u32, String)>> {
        let proof = |block: &[u8]| {
            let later = self.later_group(segment, block, number);
            let later = later.map(|header| format!("group {} was written after it", header.number));
            let mark = || SyncMark::decode(block, segment.id, self.salt);
            let is_synced = || mark().is_some_and(|mark| mark.synced >= number);
            later.or_else(|| is_synced().then(|| "a mark says that it was synced".into()))
        };
        find_block(segment, start, proof)
    }
}

/// Searches the blocks of a segment from offset `start` on. Returns the first result of `find` and
/// the block's offset.
fn find_block<T>(
    segment: &Segment,
    start: u32,
    find: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<(u32, T)>> {
    let mut buffer = vec![0; SCAN_BYTES as usize];
    let mut offset = start;
    while offset < segment.capacity {
        let part = &mut buffer[..(segment.capacity - offset).min(SCAN_BYTES) as usize];
        read(segment, offset, part)?;
        for at in (0..part.len()).step_by(BLOCK_BYTES as usize) {
            if let Some(found) = find(&part[at..]) {
                return Ok(Some((offset + at as u32, found)));
            }
        }
        offset = offset.saturating_add(SCAN_BYTES);
    }
    Ok(None)
}

/// A group read back whole.
struct Group {
    position: Position,
    /// Without padding.
    bytes: Vec<u8>,
    records: Vec<Record>,
}

impl Group {
    /// The position of the next group.
    fn end(&self) -> Position {
        let offset = self.position.offset + round_up_to_block(self.bytes.len() as u64) as u32;
        Position { offset, group: self.position.group + 1, ..self.position }
    }
}

pub(super) fn read(segment: &Segment, offset: u32, bytes: &mut [u8]) -> Result<()> {
    segment
        .file
        .read_at(u64::from(offset), bytes)
        .map_err(|error| errors::io(format!("reading {}", file_name(segment.id)), &error))
}

/// The records of a group that lies at `group`, behind its header.
pub(super) fn read_records(
    bytes: &[u8],
    group: RecordAddress,
    payloads: Payloads,
) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let mut at = GroupHeader::BYTES;
    while at < bytes.len() {
        let place = RecordAddress { offset: group.offset + at as u32, ..group };
        let record = Record::read(&bytes[at..], place, payloads)?;
        at += record.length;
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;
    use crate::disk::RealDisk;
    use crate::journal::segment::header;

    const SALT: Salt = Salt(7);
    const SEGMENT: u32 = 3;

    fn group(number: u64, salt: Salt) -> Vec<u8> {
        let length = GroupHeader::BYTES as u32;
        let mut bytes = GroupHeader { segment: SEGMENT, length, number, records: 0 }.encode(salt);
        bytes.resize(BLOCK_BYTES as usize, 0);
        bytes
    }

    /// Replays a segment of one group, numbered 1, and what `behind` has.
    fn replayed(salt: Salt, behind: &[u8]) -> Result<Position> {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let mut bytes = header(SEGMENT);
        bytes.resize(BLOCK_BYTES as usize, 0);
        bytes.extend([&group(1, salt)[..], behind].concat());
        std::fs::write(folder.path().join(file_name(SEGMENT)), bytes).unwrap();
        let found = find_files(&disk, folder.path()).unwrap();
        let segments = found.open_from(SEGMENT, &disk, folder.path()).unwrap();
        let start = Position { segment: SEGMENT, offset: BLOCK_BYTES, group: 1 };
        Reading { segments: &segments, salt }.replay(start, &mut |_| Ok(()))
    }

    #[test]
    fn with_a_mark_an_unreadable_group_is_damaged_and_not_torn() {
        let mut damaged = group(2, SALT);
        damaged[10] ^= 1;
        let mark = |synced, salt| {
            let mut mark = SyncMark { segment: SEGMENT, synced }.encode(salt);
            mark.resize(BLOCK_BYTES as usize, 0);
            mark
        };
        let error = replayed(SALT, &[damaged.clone(), mark(2, SALT)].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        for of_no_concern in [mark(1, SALT), mark(2, Salt(8))] {
            let replayed = replayed(SALT, &[damaged.clone(), of_no_concern].concat());
            assert_eq!(replayed.unwrap().group, 2, "it may be torn");
        }
        assert_eq!(replayed(SALT, &mark(1, SALT)).unwrap().group, 2);
    }

    #[test]
    fn a_later_group_proves_damage_but_a_forged_payload_does_not() {
        let damaged = replayed(SALT, &group(5, SALT)).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corrupt, "{damaged}");
        for guess in [Salt(0), Salt(8)] {
            assert_eq!(replayed(SALT, &group(5, guess)).unwrap().group, 2);
        }
    }
}
