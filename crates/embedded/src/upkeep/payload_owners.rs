//! Finds the owners of a segment's payloads, that is, the table entries that refer to them.
//! Compaction and the scrub use it. The candidates come from the segment's records and from
//! references in the tables.

use std::iter::Peekable;

use nacre_object::Result;

use crate::entry::key::{self, Key};
use crate::entry::value::{NamedIn, Value};
use crate::journal::inventory::Inventory;
use crate::tables::TableSnapshot;

/// An entry that refers to a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PayloadOwner {
    /// First byte of the payload.
    pub offset: u32,
    pub key: Key,
    /// Bytes of the payload that it refers to, more than 0.
    pub bytes: u64,
}

type Found<'a> = Peekable<Box<dyn Iterator<Item = Result<PayloadOwner>> + 'a>>;

/// The owners of the payloads in a segment, ordered by the offset of the payload. All owners of one
/// payload follow one another.
pub(crate) struct PayloadOwners<'a> {
    by_records: Found<'a>,
    by_references: Found<'a>,
}

impl<'a> PayloadOwners<'a> {
    /// Looks up in the tables all entries that `inventory` names, and keeps those that still refer
    /// to a payload of the segment.
    ///
    /// # Errors
    /// `Corrupt` if an entry is damaged.
    pub fn find(tables: &'a TableSnapshot, segment: u32, inventory: Inventory) -> Result<Self> {
        let mut by_records = Vec::new();
        // Look the entries up in the order of their keys, which is fastest. Most have another value
        // by now.
        for (key, offsets) in inventory.named {
            let value = tables.get(&key)?;
            let bytes = |offset| bytes_of(value.as_ref(), segment, offset, NamedIn::Record);
            let owners = offsets.into_iter().map(|offset| (offset, bytes(offset)));
            let owners = owners.filter(|(_, bytes)| *bytes > 0);
            by_records.extend(owners.map(|(offset, bytes)| PayloadOwner {
                offset,
                key: key.clone(),
                bytes,
            }));
        }
        by_records.sort_unstable_by_key(|owner| owner.offset);
        let by_references =
            tables.prefix(&key::reference_prefix(segment)).filter_map(move |entry| {
                entry.and_then(|(reference, _)| named_by(tables, segment, &reference)).transpose()
            });
        let by_records: Box<dyn Iterator<Item = _>> = Box::new(by_records.into_iter().map(Ok));
        let by_references: Box<dyn Iterator<Item = _>> = Box::new(by_references);
        Ok(Self { by_records: by_records.peekable(), by_references: by_references.peekable() })
    }
}

/// The owner that a reference names, if it still refers to the payload.
fn named_by(
    tables: &TableSnapshot,
    segment: u32,
    reference: &[u8],
) -> Result<Option<PayloadOwner>> {
    let Some((offset, owner)) = key::reference_parts(reference) else { return Ok(None) };
    let value = tables.get(owner)?;
    let bytes = bytes_of(value.as_ref(), segment, offset, NamedIn::Reference);
    Ok((bytes > 0).then(|| PayloadOwner { offset, key: Key::from(owner), bytes }))
}

/// Returns how many bytes of a payload a value refers to. Counts only pieces whose owner is
/// recorded where `named_in` says: in the journal record or in a reference.
fn bytes_of(value: Option<&Value>, segment: u32, offset: u32, named_in: NamedIn) -> u64 {
    let pieces = value.into_iter().flat_map(Value::pieces);
    let pieces = pieces.filter(|piece| {
        let address = piece.source.address();
        let is_it = address.is_some_and(|at| (at.segment, at.offset) == (segment, offset));
        is_it && piece.named_in == named_in
    });
    pieces.map(|piece| u64::from(piece.take)).sum()
}

impl Iterator for PayloadOwners<'_> {
    type Item = Result<PayloadOwner>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = |found: &mut Found<'_>| match found.peek() {
            Some(Ok(owner)) => Some(owner.offset),
            // Report an error at once.
            Some(Err(_)) => Some(0),
            None => None,
        };
        match (offset(&mut self.by_records), offset(&mut self.by_references)) {
            (Some(record), Some(reference)) if record < reference => self.by_records.next(),
            (Some(_), None) => self.by_records.next(),
            (_, Some(_)) => self.by_references.next(),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tempfile::TempDir;

    use super::*;
    use crate::entry::value::{PayloadAddress, Piece};
    use crate::tables::Tables;

    const SEGMENT: u32 = 3;

    fn value(pieces: &[(u32, u32, NamedIn)]) -> Value {
        let piece = |(offset, take, named_in): &(u32, u32, NamedIn)| {
            let address =
                PayloadAddress { segment: SEGMENT, offset: *offset, length: 4096, crc: 0 };
            Piece::stored(address, 0, *take, *named_in).unwrap()
        };
        Value::Pieces(pieces.iter().map(piece).collect())
    }

    #[test]
    fn each_current_owner_is_listed_once_in_the_order_of_payloads() {
        use NamedIn::{Record, Reference};
        let folder = TempDir::new().unwrap();
        let tables = Tables::open(folder.path(), 1 << 20, 1 << 20).unwrap();
        let mut batch = tables.batch(10);
        batch.put("z".into(), &value(&[(100, 10, Record), (300, 20, Record)]));
        batch.put("clone".into(), &value(&[(100, 10, Reference)]));
        batch.put("rewritten".into(), &value(&[(900, 10, Record)]));
        batch.put("trimmed".into(), &value(&[(200, 5, Reference)]));
        for (offset, owner) in [(100, "clone"), (150, "gone"), (200, "trimmed")] {
            let reference = key::reference(SEGMENT, offset, owner.as_bytes());
            batch.put(reference, &Value::Inline(bytes::Bytes::new()));
        }
        batch.commit();
        // The owners as the records of the payloads name them.
        let named = [("z", vec![100, 300]), ("rewritten", vec![400]), ("trimmed", vec![200])];
        let named = named.map(|(key, offsets)| (Key::from(key), offsets));
        let mut inventory = Inventory::default();
        inventory.named = BTreeMap::from(named);
        let snapshot = tables.snapshot();
        let owners =
            PayloadOwners::find(&snapshot, SEGMENT, inventory).unwrap().map(Result::unwrap);
        let owners: Vec<_> = owners.map(|owner| (owner.offset, owner.key, owner.bytes)).collect();
        let expected = [(100, "clone", 10), (100, "z", 10), (200, "trimmed", 5), (300, "z", 20)];
        assert_eq!(owners, expected.map(|(offset, key, bytes)| (offset, Key::from(key), bytes)));
    }
}
