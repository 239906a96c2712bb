//! A journal record: the changes that one transaction makes to the tables. Format 1, little-endian.
//!
//! ```text
//! header   magic u32, length u32, crc u32, shard u16, 0 u16, sequence u64, next node u64,
//!          bytes of meta u32, payloads u32
//! meta     payloads × (length u32, crc32c u32), then changes until its end:
//!            1 key bytes           put inline: length u32, bytes
//!            2 key pieces          put: count u32, then each
//!                                    0 address skip take    of an older record's payload
//!                                    1 index u32 skip take  of this record's payload
//!            3 key                 delete
//!            4 key address take    release, of an owner that a reference names
//!            5 key address take    release, of an owner that the payload's record names
//!          a key is its length u16 and its bytes
//! payloads their bytes, one after another
//! ```
//!
//! The crc covers the header after the crc, the meta and the number of the group. The length must
//! be the sum of the parts. The payloads have their own crcs. A piece is `take` bytes of a payload,
//! after its first `skip` bytes. A release says that an owner (a table entry) no longer refers to a
//! payload.
//!
//! **Invariant:** the sequence number of a shard's records rises by one from record to record, so a
//! missing record is noticed.

use std::collections::HashMap;

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::entry::codec::{Put, Take};
use crate::entry::key::Key;
use crate::entry::value::{NamedIn, PayloadAddress, Piece, Source, Value};
use crate::journal::segment::file_name;
use crate::transaction::change_set::{ChangeSet, Release};

const MAGIC: u32 = u32::from_le_bytes(*b"NREC");
const LENGTH_AT: usize = 4;
const CRC_AT: usize = 8;
const COVERED_FROM: usize = 12;
const META_LENGTH_AT: usize = 32;
pub(crate) const HEADER_BYTES: usize = 40;

const PUT_INLINE: u8 = 1;
const PUT_PIECES: u8 = 2;
const DELETE: u8 = 3;
const RELEASE: u8 = 4;
const RELEASE_NAMED_IN_RECORD: u8 = 5;
const OLDER: u8 = 0;
const OWN: u8 = 1;

/// Identifies a record: its shard and its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub shard: u16,
    pub sequence: u64,
    /// The first node number that the shard has not used, after this record.
    pub next_node: u64,
}

/// A record under construction, before it has an address.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    head: Vec<u8>,
    crc: u32,
    payloads: Vec<(Bytes, u32)>,
}

/// Where a record lies in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordAddress {
    pub segment: u32,
    /// First byte of the record in the segment.
    pub offset: u32,
    pub group: u64,
}

impl RecordBuilder {
    /// Encodes `changes` as a record, with their new payloads. Each payload is stored once, however
    /// many of the changes use it.
    pub fn write(&mut self, id: RecordId, changes: &mut ChangeSet) {
        self.payloads.clear();
        self.gather_payloads(changes);
        self.head.clear();
        self.put_header(id);
        for (payload, crc) in &self.payloads {
            self.head.put_u32(payload.len() as u32);
            self.head.put_u32(*crc);
        }
        // Releases first: see `ChangeSet::releases`.
        for release in &changes.releases {
            let kind = match release.named_in {
                NamedIn::Record => RELEASE_NAMED_IN_RECORD,
                NamedIn::Reference => RELEASE,
            };
            put_key(&mut self.head, kind, &release.owner);
            release.address.encode(&mut self.head);
            self.head.put_u32(release.take);
        }
        for (key, value) in &changes.entries {
            put_change(&mut self.head, key, value.as_ref());
        }
        self.finish_header();
    }

    fn gather_payloads(&mut self, changes: &mut ChangeSet) {
        // Entries of one transaction that share a payload share its memory.
        let mut known: HashMap<(usize, usize), u32> = HashMap::new();
        for piece in changes.pieces_mut() {
            let Source::Fresh(data) = &piece.source else {
                piece.named_in = NamedIn::Reference;
                continue;
            };
            let identity = (data.as_ptr() as usize, data.len());
            let index = *known.entry(identity).or_insert_with(|| {
                self.payloads.push((data.clone(), crc32c::crc32c(data)));
                self.payloads.len() as u32 - 1
            });
            piece.named_in = NamedIn::Record;
            piece.source = Source::InBuilder(index, data.clone());
        }
    }

    fn put_header(&mut self, id: RecordId) {
        self.head.put_u32(MAGIC);
        self.head.put_u32(0); // length
        self.head.put_u32(0); // crc
        self.head.put_u16(id.shard);
        self.head.put_u16(0);
        self.head.put_u64(id.sequence);
        self.head.put_u64(id.next_node);
        self.head.put_u32(0); // bytes of meta
        self.head.put_u32(self.payloads.len() as u32);
    }

    fn finish_header(&mut self) {
        let meta = (self.head.len() - HEADER_BYTES) as u32;
        let length = self.len() as u32;
        self.head[META_LENGTH_AT..][..4].copy_from_slice(&meta.to_le_bytes());
        self.head[LENGTH_AT..][..4].copy_from_slice(&length.to_le_bytes());
        self.crc = crc32c::crc32c(&self.head[COVERED_FROM..]);
    }

    /// Bytes of the whole record.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload_bytes()
    }

    pub fn payload_bytes(&self) -> usize {
        self.payloads.iter().map(|(payload, _)| payload.len()).sum()
    }

    /// Appends the record to a group's bytes.
    pub fn append_to(&self, group: &mut Vec<u8>, number: u64) {
        let start = group.len();
        group.put_bytes(&self.head);
        let crc = bind_to_group(self.crc, number);
        group[start + CRC_AT..][..4].copy_from_slice(&crc.to_le_bytes());
        for (payload, _) in &self.payloads {
            group.put_bytes(payload);
        }
    }

    /// Sets the addresses of the payloads in `changes`.
    pub fn settle(&self, changes: &mut ChangeSet, place: RecordAddress) {
        if self.payloads.is_empty() {
            return;
        }
        let mut offset = place.offset + self.head.len() as u32;
        let mut addresses = Vec::with_capacity(self.payloads.len());
        for (payload, crc) in &self.payloads {
            let length = payload.len() as u32;
            addresses.push(PayloadAddress { segment: place.segment, offset, length, crc: *crc });
            offset += length;
        }
        for piece in changes.pieces_mut() {
            if let Source::InBuilder(index, data) = &piece.source {
                piece.source = Source::Unsynced(addresses[*index as usize], data.clone());
            }
        }
    }
}

fn bind_to_group(crc: u32, group: u64) -> u32 {
    crc32c::crc32c_append(crc, &group.to_le_bytes())
}

fn put_key(out: &mut Vec<u8>, kind: u8, key: &Key) {
    out.put_u8(kind);
    out.put_u16(u16::try_from(key.len()).expect("names and keys are bounded well below 64 KiB"));
    out.put_bytes(key);
}

fn put_change(out: &mut Vec<u8>, key: &Key, value: Option<&Value>) {
    match value {
        None => put_key(out, DELETE, key),
        Some(Value::Inline(data)) => {
            put_key(out, PUT_INLINE, key);
            out.put_u32(data.len() as u32);
            out.put_bytes(data);
        }
        Some(Value::Pieces(pieces)) => {
            put_key(out, PUT_PIECES, key);
            out.put_u32(pieces.len() as u32);
            pieces.iter().for_each(|piece| put_piece(out, piece));
        }
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece) {
    match &piece.source {
        Source::Stored(address) | Source::Unsynced(address, _) => {
            out.put_u8(OLDER);
            address.encode(out);
        }
        Source::InBuilder(index, _) => {
            out.put_u8(OWN);
            out.put_u32(*index);
        }
        Source::Fresh(_) => unreachable!("payloads are gathered before they are written down"),
    }
    out.put_u32(piece.skip);
    out.put_u32(piece.take);
}

/// Whether payloads are checked where their records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payloads {
    Checked,
    /// Each reader of a payload checks its own.
    Unchecked,
}

/// A record read back.
#[derive(Debug)]
pub(crate) struct Record {
    pub id: RecordId,
    pub changes: ChangeSet,
    /// Bytes it takes up in its group.
    pub length: usize,
}

impl Record {
    /// Decodes the record at the front of `bytes`. `place` is the record's address in the journal.
    ///
    /// # Errors
    /// `Corrupt` if the record is not whole.
    pub fn read(bytes: &[u8], place: RecordAddress, payloads: Payloads) -> Result<Self> {
        let damaged = |what: &str| {
            let (file, at) = (file_name(place.segment), place.offset);
            Error::corrupt(format!("the journal record in {file} at byte {at} is damaged: {what}"))
        };
        let mut header = Take(bytes);
        if header.u32()? != MAGIC {
            return Err(damaged("the magic number is missing"));
        }
        let (length, crc) = (header.u32()? as usize, header.u32()?);
        let (shard, _) = (header.u16()?, header.u16()?);
        let id = RecordId { shard, sequence: header.u64()?, next_node: header.u64()? };
        let (meta_bytes, payload_count) = (header.u32()? as usize, header.u32()? as usize);
        let meta_end = HEADER_BYTES.saturating_add(meta_bytes);
        if length > bytes.len() || meta_end > length {
            return Err(damaged("its length is wrong"));
        }
        if bind_to_group(crc32c::crc32c(&bytes[COVERED_FROM..meta_end]), place.group) != crc {
            return Err(damaged("its checksum is wrong"));
        }
        let mut meta = Take(&bytes[HEADER_BYTES..meta_end]);
        let own = read_payloads(&mut meta, payload_count, meta_end, place)?;
        if payloads == Payloads::Checked {
            own.iter().try_for_each(|address| check_payload(&bytes[..length], place, address))?;
        }
        let payload_bytes: usize = own.iter().map(|address| address.length as usize).sum();
        if meta_end + payload_bytes != length {
            return Err(damaged("its length is wrong"));
        }
        let changes = read_changes(&mut meta, &own)?;
        Ok(Self { id, changes, length })
    }
}

/// Reads the addresses of the record's own payloads. The first payload begins at `start` in the
/// record.
fn read_payloads(
    meta: &mut Take<'_>,
    count: usize,
    start: usize,
    place: RecordAddress,
) -> Result<Vec<PayloadAddress>> {
    let too_long = || Error::corrupt("a journal record is damaged: its payloads are too long");
    let mut addresses = Vec::new();
    let mut offset = place.offset + start as u32;
    for _ in 0..count {
        let (length, crc) = (meta.u32()?, meta.u32()?);
        addresses.push(PayloadAddress { segment: place.segment, offset, length, crc });
        offset = offset.checked_add(length).ok_or_else(too_long)?;
    }
    Ok(addresses)
}

fn check_payload(record: &[u8], place: RecordAddress, address: &PayloadAddress) -> Result<()> {
    let start = (address.offset - place.offset) as usize;
    let data = record.get(start..start.saturating_add(address.length as usize));
    if data.is_some_and(|data| crc32c::crc32c(data) == address.crc) {
        return Ok(());
    }
    Err(Error::corrupt("a payload of a journal record fails its checksum"))
}

fn read_changes(meta: &mut Take<'_>, own: &[PayloadAddress]) -> Result<ChangeSet> {
    let mut changes = ChangeSet::default();
    while !meta.is_empty() {
        let kind = meta.u8()?;
        let key_bytes = usize::from(meta.u16()?);
        let key = Key::from(meta.bytes(key_bytes)?);
        match kind {
            PUT_INLINE => {
                let length = meta.u32()? as usize;
                let data = Bytes::copy_from_slice(meta.bytes(length)?);
                changes.entries.insert(key, Some(Value::Inline(data)));
            }
            PUT_PIECES => {
                let count = meta.u32()?;
                let pieces: Result<_> = (0..count).map(|_| read_piece(meta, own)).collect();
                changes.entries.insert(key, Some(Value::Pieces(pieces?)));
            }
            DELETE => {
                changes.entries.insert(key, None);
            }
            RELEASE | RELEASE_NAMED_IN_RECORD => {
                let address = PayloadAddress::decode(meta)?;
                let named_in = if kind == RELEASE { NamedIn::Reference } else { NamedIn::Record };
                let take = meta.u32()?;
                changes.releases.push(Release { owner: key, address, take, named_in });
            }
            other => {
                return Err(Error::corrupt(format!(
                    "a journal record is damaged: it has a change of the unknown kind {other}"
                )));
            }
        }
    }
    Ok(changes)
}

fn read_piece(meta: &mut Take<'_>, own: &[PayloadAddress]) -> Result<Piece> {
    let (address, named_in) = match meta.u8()? {
        OLDER => (PayloadAddress::decode(meta)?, NamedIn::Reference),
        _ => {
            let index = meta.u32()? as usize;
            let own = own.get(index);
            let own = own.ok_or_else(|| {
                Error::corrupt(
                    "a journal record is damaged: a change names a payload that it lacks",
                )
            })?;
            (*own, NamedIn::Record)
        }
    };
    Piece::stored(address, meta.u32()?, meta.u32()?, named_in)
}

/// Makes the checksums of the record at the front of `bytes` valid again after a mutation. Returns
/// the record's length, or `None` if there is no record.
#[cfg(test)]
pub(crate) fn reseal(bytes: &mut [u8], group: u64) -> Option<usize> {
    let number = |bytes: &[u8], at: usize| Take(&bytes[at..]).u32().ok().map(|n| n as usize);
    let length = number(bytes.get(..HEADER_BYTES)?, LENGTH_AT)?;
    let meta_end = HEADER_BYTES.checked_add(number(bytes, META_LENGTH_AT)?)?;
    if meta_end > length || length > bytes.len() {
        return None;
    }
    let (mut entry, mut at) = (HEADER_BYTES, meta_end);
    for _ in 0..number(bytes, META_LENGTH_AT + 4)? {
        if entry + 8 > meta_end {
            break;
        }
        let end = at.checked_add(number(bytes, entry)?)?;
        let Some(data) = bytes.get(at..end) else { break };
        let crc = crc32c::crc32c(data);
        bytes[entry + 4..entry + 8].copy_from_slice(&crc.to_le_bytes());
        (entry, at) = (entry + 8, end);
    }
    let crc = bind_to_group(crc32c::crc32c(&bytes[COVERED_FROM..meta_end]), group);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::value::PAYLOAD_MAX_BYTES;

    const ID: RecordId = RecordId { shard: 2, sequence: 9, next_node: 4 };
    const PLACE: RecordAddress = RecordAddress { segment: 3, offset: 64, group: 5 };

    fn sample() -> ChangeSet {
        let address = PayloadAddress { segment: 1, offset: 40, length: 9000, crc: 77 };
        let older = Piece::stored(address, 1, 5000, NamedIn::Reference).unwrap();
        let mut changes = ChangeSet::default();
        let mut put = |key: &str, value| changes.entries.insert(Key::from(key), value);
        put("small", Some(Value::Inline(Bytes::from_static(b"value"))));
        put("large", Some(Value::of(Bytes::from(vec![7; PAYLOAD_MAX_BYTES + 2]))));
        put("shared", Some(Value::Pieces(vec![older])));
        put("gone", None);
        for named_in in [NamedIn::Record, NamedIn::Reference] {
            let owner = Key::from("gone");
            changes.releases.push(Release { owner, address, take: 12, named_in });
        }
        changes
    }

    fn written() -> (ChangeSet, Vec<u8>) {
        let (mut changes, mut builder, mut bytes) =
            (sample(), RecordBuilder::default(), Vec::new());
        builder.write(ID, &mut changes);
        builder.append_to(&mut bytes, PLACE.group);
        builder.settle(&mut changes, PLACE);
        assert_eq!(bytes.len(), builder.len());
        (changes, bytes)
    }

    #[test]
    fn a_record_reads_back_as_written_with_its_payloads_in_place() {
        let (changes, bytes) = written();
        let record = Record::read(&bytes, PLACE, Payloads::Checked).unwrap();
        assert_eq!((record.id, record.length), (ID, bytes.len()));
        assert_eq!(record.changes.releases, changes.releases);
        let stored = |entries: &crate::transaction::change_set::Overlay| -> Vec<_> {
            let encode = |(key, value): (&Key, &Option<Value>)| {
                let value = value.as_ref().map(|value| value.encode(key, &mut Vec::new()));
                (key.clone(), value)
            };
            entries.iter().map(encode).collect()
        };
        assert_eq!(stored(&record.changes.entries), stored(&changes.entries));
        let large = changes.entries[&Key::from("large")].as_ref().unwrap();
        let address = large.pieces()[0].source.address().unwrap();
        let at = (address.offset - PLACE.offset) as usize;
        assert_eq!(bytes[at..][..PAYLOAD_MAX_BYTES], vec![7; PAYLOAD_MAX_BYTES]);
    }

    #[test]
    fn a_record_with_a_flipped_bit_or_from_another_group_is_refused() {
        let (_, bytes) = written();
        for byte in (0..300).chain((300..bytes.len()).step_by(997)) {
            let mut flipped = bytes.clone();
            flipped[byte] ^= 1 << (byte % 8);
            assert!(Record::read(&flipped, PLACE, Payloads::Checked).is_err(), "byte {byte}");
        }
        assert!(
            Record::read(&bytes, RecordAddress { group: 6, ..PLACE }, Payloads::Checked).is_err()
        );
    }

    #[test]
    fn a_payload_used_twice_is_written_once() {
        let data = Bytes::from(vec![1; 5000]);
        let mut changes = ChangeSet::default();
        for key in ["a", "b"] {
            changes.entries.insert(Key::from(key), Some(Value::of(data.clone())));
        }
        let mut builder = RecordBuilder::default();
        builder.write(ID, &mut changes);
        assert_eq!(builder.payload_bytes(), data.len());
    }
}
