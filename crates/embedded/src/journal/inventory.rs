//! Lists the table entries that owned the payloads of a journal segment when the payloads were
//! written. Compaction and the scrub use the list to find the present owners, that is, the entries
//! that refer to the payloads.
//!
//! The list comes from the segment's records. An entry may have another value by now, so only the
//! tables tell whether it still refers to its payload.

use std::collections::BTreeMap;

use nacre_object::{Error, Result};

use super::record::{Payloads, Record, RecordAddress};
use super::recovery::{Reading, read, read_records};
use super::released_payloads::SegmentReleases;
use super::segment::{BLOCK_BYTES, GroupHeader, Salt, Segment, file_name, round_up_to_block};
use crate::entry::key::Key;
use crate::entry::value::NamedIn;

/// The table entries that the records of a segment name.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// For each table entry that the segment's records name: the offsets of the payloads of its
    /// last value in these records. Payloads that the entry is known to have released are left out.
    pub named: BTreeMap<Key, Vec<u32>>,
    released: SegmentReleases,
    /// The error if a group could not be read. The entries that the group's records name are then
    /// missing from this list.
    pub damage: Option<Error>,
}

impl Inventory {
    /// Makes the list from the groups in `segment` up to number `last`, which must be synced.
    /// Leaves out the payloads in `released`.
    ///
    /// Unreadable bytes after the last readable group count as a torn write, as in a replay. So
    /// this cannot detect a lost last group. A caller that must detect it compares the list with
    /// the stored count of bytes that entries refer to.
    ///
    /// # Errors
    /// Any error of the disk.
    pub fn take(
        segment: &Segment,
        salt: Salt,
        last: u64,
        released: SegmentReleases,
    ) -> Result<Self> {
        let mut inventory = Self { released, ..Self::default() };
        // Unreadable bytes at the end may be a torn group.
        let mut unread = None;
        visit_groups(segment, salt, last, &mut |group, records| {
            if let Some(unread) = unread.take().or(group.unread_before) {
                inventory.note_damage(segment, unread);
            }
            match records {
                Some(records) => records.into_iter().for_each(|record| inventory.add(record)),
                None => unread = Some(group.offset),
            }
        })?;
        Ok(inventory)
    }

    fn note_damage(&mut self, segment: &Segment, at: u32) {
        let place = format!("{} at byte {at}", file_name(segment.id));
        let text =
            "a group of the journal cannot be read, so the space of its segment is not freed";
        self.damage.get_or_insert_with(|| Error::corrupt(text).on(place));
    }

    fn add(&mut self, record: Record) {
        for (key, value) in record.changes.entries {
            let own = value.iter().flat_map(|value| value.pieces());
            let own = own.filter(|piece| piece.named_in == NamedIn::Record);
            let offsets = own.filter_map(|piece| Some(piece.source.address()?.offset));
            let offsets = offsets.filter(|offset| !self.released.has(*offset, &key));
            let mut offsets: Vec<u32> = offsets.collect();
            offsets.sort_unstable();
            offsets.dedup();
            if offsets.is_empty() {
                self.named.remove(&key);
            } else {
                self.named.insert(key, offsets);
            }
        }
    }
}

/// A group that was found in a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundGroup {
    pub number: u64,
    /// First byte of the group in the segment.
    offset: u32,
    /// Where unreadable bytes begin, if there are any between this group and the previous one that
    /// was found.
    unread_before: Option<u32>,
}

/// Calls `visit` for each group of a segment up to number `last`. `visit` gets the group's records,
/// or `None` if they cannot be read.
///
/// # Errors
/// Any error of the disk.
pub(crate) fn visit_groups(
    segment: &Segment,
    salt: Salt,
    last: u64,
    visit: &mut dyn FnMut(FoundGroup, Option<Vec<Record>>),
) -> Result<()> {
    let segments = std::slice::from_ref(segment);
    let reading = Reading { segments, salt };
    let mut buffer = Vec::new();
    let (mut at, mut number) = (BLOCK_BYTES, 0);
    while let Some((offset, header)) = next_header(&reading, segment, at, number, last)? {
        let unread_before = (offset != at).then_some(at);
        let found = FoundGroup { number: header.number, offset, unread_before };
        visit(found, records(segment, offset, header, &mut buffer)?);
        number = header.number;
        at = offset.saturating_add(round_up_to_block(u64::from(header.length)) as u32);
    }
    Ok(())
}

/// The records of a group; `None` if they cannot be read.
fn records(
    segment: &Segment,
    offset: u32,
    header: GroupHeader,
    buffer: &mut Vec<u8>,
) -> Result<Option<Vec<Record>>> {
    let end = u64::from(offset) + u64::from(header.length);
    if end > u64::from(segment.capacity) || (header.length as usize) < GroupHeader::BYTES {
        return Ok(None);
    }
    buffer.resize(buffer.len().max(header.length as usize), 0);
    let bytes = &mut buffer[..header.length as usize];
    read(segment, offset, bytes)?;
    let place = RecordAddress { segment: segment.id, offset, group: header.number };
    Ok(read_records(bytes, place, Payloads::Unchecked).ok())
}

/// Finds the first group at or after byte `from` with a number above `number`, and returns its
/// offset and header. Returns `None` if there is none or its number is above `last`.
fn next_header(
    reading: &Reading<'_>,
    segment: &Segment,
    from: u32,
    number: u64,
    last: u64,
) -> Result<Option<(u32, GroupHeader)>> {
    let expected = reading.group_header(segment, from)?.map(|header| (from, header));
    let found = match expected.filter(|(_, header)| header.number > number) {
        None => reading.find_later_group(segment, from, number)?,
        found => found,
    };
    Ok(found.filter(|(_, header)| header.number <= last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use tempfile::TempDir;

    use super::*;
    use crate::disk::{Create, Disk, RealDisk};
    use crate::entry::codec::Put;
    use crate::entry::value::{PAYLOAD_MIN_BYTES, Value};
    use crate::journal::record::{HEADER_BYTES, RecordBuilder, RecordId};
    use crate::journal::released_payloads::{ReleasedPayload, ReleasedPayloads};
    use crate::transaction::change_set::{ChangeSet, Overlay};

    const SALT: Salt = Salt(7);
    const SEGMENT: u32 = 3;
    const FIRST_GROUP: u64 = 5;

    /// Makes a group of one record. The record sets a key to a payload, or deletes the key.
    fn group(number: u64, key: &str, is_put: bool) -> Vec<u8> {
        let value = is_put.then(|| Value::of(Bytes::from(vec![7; PAYLOAD_MIN_BYTES])));
        let entries = Overlay::from([(Key::from(key), value)]);
        let mut builder = RecordBuilder::default();
        let mut changes = ChangeSet { entries, releases: Vec::new() };
        builder.write(RecordId { shard: 0, sequence: number, next_node: 1 }, &mut changes);
        let length = (GroupHeader::BYTES + builder.len()) as u32;
        let header = GroupHeader { segment: SEGMENT, length, number, records: 1 };
        let mut bytes = header.encode(SALT);
        builder.append_to(&mut bytes, number);
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        bytes
    }

    /// Writes these groups to a segment and lists the entries that they name. `flipped` is a group
    /// and the offset of a byte in it to flip.
    fn inventory(groups: &[Vec<u8>], flipped: Option<(usize, usize)>, last: u64) -> Inventory {
        inventory_without(ReleasedPayloads::default(), groups, flipped, last)
    }

    fn inventory_without(
        released: ReleasedPayloads,
        groups: &[Vec<u8>],
        flipped: Option<(usize, usize)>,
        last: u64,
    ) -> Inventory {
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        for (n, group) in groups.iter().enumerate() {
            let start = bytes.len();
            bytes.put_bytes(group);
            if let Some((_, at)) = flipped.filter(|(group, _)| *group == n) {
                bytes[start + at] ^= 1;
            }
        }
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        let file = RealDisk.open(&path, Create::Never).unwrap();
        let segment =
            Segment { id: SEGMENT, file: Arc::clone(&file), capacity: bytes.len() as u32 };
        Inventory::take(&segment, SALT, last, released.of(SEGMENT)).unwrap()
    }

    fn keys(inventory: &Inventory) -> Vec<&str> {
        inventory.named.keys().map(|key| std::str::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn an_inventory_names_the_last_payloads_of_entries_that_were_not_deleted() {
        let puts = [("a", true), ("b", true), ("a", true), ("c", true), ("c", false)];
        let groups: Vec<_> =
            (FIRST_GROUP..).zip(puts).map(|(n, (key, is_put))| group(n, key, is_put)).collect();
        let all = inventory(&groups, None, u64::MAX);
        assert!(all.damage.is_none());
        assert_eq!(keys(&all), ["a", "b"]);
        let before_a: usize = groups[..2].iter().map(Vec::len).sum();
        let payload = groups[2].windows(64).position(|bytes| bytes == [7; 64]).unwrap();
        let at = BLOCK_BYTES as usize + before_a + payload;
        assert_eq!(all.named[b"a".as_slice()], [at as u32]);
        // Groups that are not synced yet are not read.
        assert_eq!(keys(&inventory(&groups, None, FIRST_GROUP + 3)), ["a", "b", "c"]);
    }

    #[test]
    fn an_inventory_leaves_out_released_payloads_but_not_new_ones_of_the_same_entry() {
        let groups: Vec<_> =
            (FIRST_GROUP..).zip(["a", "b", "a"]).map(|(n, key)| group(n, key, true)).collect();
        let all = inventory(&groups, None, u64::MAX);
        let first = inventory(&groups[..1], None, u64::MAX).named[b"a".as_slice()][0];
        let without = |payloads: &[(u32, &[u8])]| {
            let mut released = ReleasedPayloads::default();
            for (offset, owner) in payloads {
                released.note(SEGMENT, ReleasedPayload::new(*offset, owner));
            }
            inventory_without(released, &groups, None, u64::MAX).named
        };
        let of = |key: &[u8]| all.named[key][0];
        assert_eq!(without(&[(first, b"a")]), all.named);
        assert_eq!(without(&[(of(b"b"), b"a")]), all.named);
        let left = without(&[(first, b"a"), (of(b"b"), b"b")]);
        assert_eq!(left.into_keys().collect::<Vec<_>>(), [Key::from("a")]);
        assert!(without(&[(first, b"a"), (of(b"a"), b"a"), (of(b"b"), b"b")]).is_empty());
    }

    #[test]
    fn an_inventory_continues_after_a_damaged_group_and_reports_the_damage() {
        let groups: Vec<_> =
            (FIRST_GROUP..).zip(["a", "b", "c"]).map(|(n, key)| group(n, key, true)).collect();
        for at in [20, GroupHeader::BYTES + HEADER_BYTES + 12] {
            for (damaged, left) in [(0, ["b", "c"]), (1, ["a", "c"])] {
                let found = inventory(&groups, Some((damaged, at)), u64::MAX);
                assert_eq!(keys(&found), left, "byte {at} of group {damaged}");
                let told = found.damage.unwrap();
                let place = BLOCK_BYTES as usize + damaged * groups[0].len();
                assert!(told.object().unwrap().ends_with(&format!("at byte {place}")), "{told}");
            }
            let found = inventory(&groups, Some((2, at)), u64::MAX);
            assert_eq!((keys(&found), found.damage.is_none()), (vec!["a", "b"], true));
        }
        // Damage in a payload is not noticed here; whoever reads the payload checks it.
        let found = inventory(&groups, Some((1, groups[1].len() / 2)), u64::MAX);
        assert_eq!((keys(&found), found.damage.is_none()), (vec!["a", "b", "c"], true));
    }
}
