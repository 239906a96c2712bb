//! Fuzzes the parsers of everything that the engine reads from disk.
//!
//! Checksums would reject nearly every mutated input. So the fuzz targets recompute them
//! ([`sealed`] and similar helpers), and test how a parser handles nonsense under a valid checksum.

use std::sync::Arc;

use bytes::Bytes;
use nacre_fuzz::{fuzz, fuzz_slow};

use crate::disk::{Disk, RealDisk};
use crate::entry::codec::Put;
use crate::entry::head::{Content, Head};
use crate::entry::key::{self, Key, Kind, NodeId};
use crate::entry::value::{NamedIn, PAYLOAD_MIN_BYTES, PayloadAddress, Piece, Value};
use crate::journal::Position;
use crate::journal::inventory::Inventory;
use crate::journal::record::{
    HEADER_BYTES, Payloads, Record, RecordAddress, RecordBuilder, RecordId, reseal,
};
use crate::journal::recovery::{Reading, find_files};
use crate::journal::released_payloads::SegmentReleases;
use crate::journal::segment::{BLOCK_BYTES, GroupHeader, Salt, file_name, header};
use crate::manifest::Manifest;
use crate::scrub::ScrubCursor;
use crate::tables::{Tables, listed_files};
use crate::transaction::change_set::{ChangeSet, Release};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// The number of inputs in a short run of a target that writes files. Each input takes some hundred
/// microseconds.
const FILES_SHORT_RUN: u64 = 2_000;
/// Length of the segment that is replayed.
const SEGMENT_BYTES: usize = 8 * 1024;
const SEGMENT: u32 = 3;
const FIRST_GROUP: u64 = 5;
const SALT: Salt = Salt(0x0102_0304_0506_0708);

/// `content` and its checksum.
fn sealed(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.put_u32(crc32c::crc32c(content));
    bytes
}

/// A change set with a change of each kind.
fn sample_changes() -> ChangeSet {
    let address = PayloadAddress { segment: 1, offset: 40, length: 9000, crc: 77 };
    let older = Piece::stored(address, 1, 5000, NamedIn::Reference).unwrap();
    let mut changes = ChangeSet::default();
    let mut put = |key: &str, value| changes.entries.insert(Key::from(key), value);
    put("small", Some(Value::Inline(Bytes::from_static(b"value"))));
    put("large", Some(Value::of(Bytes::from(vec![7; PAYLOAD_MIN_BYTES]))));
    put("older", Some(Value::Pieces(vec![older])));
    put("gone", None);
    for named_in in [NamedIn::Record, NamedIn::Reference] {
        changes.releases.push(Release { owner: Key::from("old"), address, take: 9, named_in });
    }
    changes
}

fn record_bytes(changes: &mut ChangeSet, sequence: u64, group: u64) -> Vec<u8> {
    let mut builder = RecordBuilder::default();
    builder.write(RecordId { shard: 0, sequence, next_node: 4 }, changes);
    let mut bytes = Vec::new();
    builder.append_to(&mut bytes, group);
    bytes
}

fn group_bytes(number: u64) -> Vec<u8> {
    let records: Vec<u8> =
        (1..3).flat_map(|n| record_bytes(&mut sample_changes(), n, number)).collect();
    let length = (GroupHeader::BYTES + records.len()) as u32;
    let header = GroupHeader { segment: SEGMENT, length, number, records: 2 };
    let mut bytes = header.encode(SALT);
    bytes.put_bytes(&records);
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    bytes
}

#[test]
fn fuzz_journal_records() {
    let place = RecordAddress { segment: SEGMENT, offset: 64, group: FIRST_GROUP };
    let samples = [record_bytes(&mut sample_changes(), 9, place.group)];
    fuzz(CRATE, "journal_records", &samples, |input| {
        let mut input = input.to_vec();
        reseal(&mut input, place.group);
        let Ok(mut record) = Record::read(&input, place, Payloads::Checked) else { return false };
        assert!(record.length >= HEADER_BYTES && record.length <= input.len());
        // A decoded record can be encoded again, and the tables accept it.
        let again = record_bytes(&mut record.changes, record.id.sequence, place.group);
        let again = Record::read(&again, place, Payloads::Checked).unwrap();
        assert_eq!(format!("{:?}", again.changes), format!("{:?}", record.changes));
        for (key, value) in record.changes.entries {
            let Some(value) = value else { continue };
            let stored = value.encode(&key, &mut Vec::new());
            Value::decode(&key, &stored).unwrap();
        }
        true
    });
}

/// Recomputes the checksums of every group that starts with its magic number.
fn reseal_groups(segment: &mut [u8]) {
    for start in (BLOCK_BYTES as usize..segment.len()).step_by(BLOCK_BYTES as usize) {
        let group = &mut segment[start..];
        let Some(header) = group.get(..GroupHeader::BYTES) else { return };
        if header[..4] != *b"NGRP" {
            continue;
        }
        let crc = crc32c::crc32c(&header[8..]);
        group[4..8].copy_from_slice(&crc.to_le_bytes());
        let Some(header) = GroupHeader::decode(group, SEGMENT, SALT) else { continue };
        let end = (header.length as usize).min(group.len());
        let mut at = GroupHeader::BYTES;
        while at < end {
            match reseal(&mut group[at..end], header.number) {
                Some(length) => at += length,
                None => break,
            }
        }
    }
}

#[test]
fn fuzz_segments() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let groups: Vec<u8> = (FIRST_GROUP..FIRST_GROUP + 2).flat_map(group_bytes).collect();
    let start = Position { segment: SEGMENT, offset: BLOCK_BYTES, group: FIRST_GROUP };
    fuzz_slow(CRATE, "segments", FILES_SHORT_RUN, &[groups], |input| {
        let mut segment = header(SEGMENT);
        segment.resize(BLOCK_BYTES as usize, 0);
        segment.put_bytes(&input[..input.len().min(SEGMENT_BYTES)]);
        reseal_groups(&mut segment);
        std::fs::write(folder.path().join(file_name(SEGMENT)), segment).unwrap();
        let found = find_files(&disk, folder.path()).unwrap();
        let segments = found.open_from(SEGMENT, &disk, folder.path()).unwrap();
        let mut records = 0;
        let reading = Reading { segments: &segments, salt: SALT };
        let end = reading.replay(start, &mut |_| {
            records += 1;
            Ok(())
        });
        let last = end.as_ref().map_or(u64::MAX, |end| end.group - 1);
        let damaged = reading.first_damaged(start, last).unwrap();
        assert_eq!(damaged.is_none(), end.is_ok(), "a replay and a scrub see the same groups");
        let inventory =
            Inventory::take(&segments[0], SALT, last, SegmentReleases::default()).unwrap();
        assert!(inventory.named.values().flatten().all(|at| (*at as usize) < SEGMENT_BYTES * 2));
        end.is_ok() && records > 0
    });
}

#[test]
fn fuzz_manifests() {
    let checkpoint = Position { segment: 1, offset: 512, group: 9 };
    let sample = |sequences| {
        let sample = Manifest { salt: SALT, checkpoint, sequences }.encode();
        sample[..sample.len() - 4].to_vec()
    };
    let samples = [sample(vec![3]), sample(vec![3, 4]), sample(vec![u64::MAX; 16])];
    fuzz(CRATE, "manifests", &samples, |input| {
        let _ = Manifest::decode(input);
        Manifest::decode(&sealed(input))
            .is_ok_and(|manifest| manifest.encode().starts_with(&input[..32]))
    });
}

#[test]
fn fuzz_table_values_and_heads() {
    let key = b"key".as_slice();
    let address = PayloadAddress { segment: 1, offset: 2, length: 300, crc: 4 };
    let piece = |named_in| Piece::stored(address, 100, 200, named_in).unwrap();
    let content = Content { size: 7, stream: Some(NodeId::new(1, 9)), ..Content::default() };
    let whole = Content { whole: Some(Bytes::from_static(b"1234567")), ..content.clone() };
    let [head, whole] =
        [content, whole].map(|content| Head { version: 3, modified_micros: 5, content }.encode());
    let of = |value: Value| {
        let stored = value.encode(key, &mut Vec::new());
        stored[..stored.len() - 4].to_vec()
    };
    let samples = [head, whole].map(|head| of(Value::Inline(head)));
    let samples = [
        &samples[..],
        &[of(Value::Pieces([NamedIn::Record, NamedIn::Reference].map(piece).to_vec()))],
    ]
    .concat();
    fuzz(CRATE, "table_values", &samples, |input| {
        let _ = Value::decode(key, input);
        let mut stored = input.to_vec();
        stored.put_u32(crc32c::crc32c_append(crc32c::crc32c(key), input));
        let Ok(value) = Value::decode(key, &stored) else { return false };
        assert_eq!(value.encode(key, &mut Vec::new()).to_vec(), stored);
        if let Ok(Ok(head)) = value.into_inline().map(|bytes| Head::decode(&bytes)) {
            assert_eq!(Head::decode(&head.encode()).unwrap(), head);
        }
        true
    });
}

#[test]
fn fuzz_table_keys() {
    let node = NodeId::new(1, 2);
    let object = "pool/name".parse().unwrap();
    let samples = [
        key::head(&object).to_vec(),
        key::snapshot(&object, &"s".parse().unwrap()).to_vec(),
        key::extent(node, 9).to_vec(),
        key::slot(node, 9).to_vec(),
        key::map_entry(node, b"k").to_vec(),
        key::map_header(node).to_vec(),
        key::attribute(node, "a").to_vec(),
        key::reference(3, 4, b"owner").to_vec(),
        key::live(3, 4).to_vec(),
        key::garbage(node).to_vec(),
        key::applied(1).to_vec(),
    ];
    fuzz(CRATE, "table_keys", &samples, |input| {
        key::node_of(input);
        key::live_parts(input);
        key::garbage_node(input);
        key::reference_parts(input);
        let past = key::after_prefix(input);
        assert!(past.is_none_or(|past| &past[..] > input));
        match Kind::of(input) {
            Some(Kind::Head(object)) => assert_eq!(&key::head(&object)[..], input),
            Some(Kind::Snapshot(object, name)) => {
                assert_eq!(&key::snapshot(&object, &name)[..], input);
            }
            other => return other.is_some(),
        }
        true
    });
}

#[test]
fn fuzz_scrub_cursors() {
    let samples = ["files:", "files:7", "entries:00ff", "journal"];
    fuzz(CRATE, "scrub_cursors", &samples.map(|text| text.as_bytes().to_vec()), |input| {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(cursor) = text.parse::<ScrubCursor>() else { return false };
        assert_eq!(cursor.to_string().parse::<ScrubCursor>().unwrap(), cursor);
        true
    });
}

#[test]
fn fuzz_files_of_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let tables = Tables::open(folder.path(), 1 << 20, 1 << 20).unwrap();
    let mut batch = tables.batch(1);
    batch.put(Key::from("key"), &Value::Inline(Bytes::from_static(b"value")));
    batch.commit();
    tables.seal();
    tables.write_sealed().unwrap();
    drop(tables);
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (current, copy) = (read("current"), read("list.copy"));
    let list = read(&format!("v{}", current[0]));
    let samples = [[&current[..], &list].concat(), copy[..copy.len() - 4].to_vec()];
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(tree.path().join(name), bytes).unwrap();
    fuzz_slow(CRATE, "files_of_the_tables", FILES_SHORT_RUN, &samples, |input| {
        let (named, listed) = input.split_at(input.len().min(current.len()));
        write("current", named);
        write(&format!("v{}", current[0]), listed);
        write("list.copy", &sealed(input));
        listed_files(tree.path()).is_ok()
    });
}
