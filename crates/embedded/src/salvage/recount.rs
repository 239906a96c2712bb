//! Counts again how many bytes of each journal segment the entries of a salvaged store refer to.
//!
//! If a stored count were too low, the engine would free a segment that is still referred to. So
//! the counts are corrected before anything else is written to a salvaged store.

use std::collections::HashMap;

use nacre_object::{ErrorKind, Result};

use crate::entry::key;
use crate::entry::value::Value;
use crate::tables::{TableSnapshot, Tables};

/// Bytes that the entries of a shard refer to in a segment.
type Counts = HashMap<(u32, u16), i64>;

/// Corrects the stored counts of live bytes, that is, of bytes in each segment that entries refer
/// to. The tables must contain all changes of the journal.
///
/// # Errors
/// Any error of reading or writing the tables. If an entry is damaged, nobody knows what it refers
/// to, so no count is changed.
pub(super) fn recount(tables: &Tables) -> Result<()> {
    let snapshot = tables.snapshot_with_deferred();
    let counts = match counted(&snapshot) {
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(()),
        counts => counts?,
    };
    let mut batch = tables.batch(counts.len());
    for entry in snapshot.prefix(&key::live_prefix()) {
        let (key, _) = entry?;
        if !key::live_parts(&key).is_some_and(|parts| counts.contains_key(&parts)) {
            batch.delete(key);
        }
    }
    for ((segment, shard), bytes) in counts {
        let count = Value::Inline(bytes.to_le_bytes().to_vec().into());
        batch.put(key::live(segment, shard).into(), &count);
    }
    batch.commit();
    Ok(())
}

fn counted(snapshot: &TableSnapshot) -> Result<Counts> {
    let mut counts = Counts::new();
    for entry in snapshot.prefix(&key::ALL_NODES) {
        let (key, value) = entry?;
        let Some(node) = key::node_of(&key) else { continue };
        for piece in value.pieces() {
            if let Some(address) = piece.source.address() {
                *counts.entry((address.segment, node.shard())).or_default() +=
                    i64::from(piece.take);
            }
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tempfile::TempDir;

    use super::*;
    use crate::entry::key::NodeId;
    use crate::entry::value::{NamedIn, PayloadAddress, Piece};

    fn value(pieces: &[(u32, u32)]) -> Value {
        let piece = |(segment, take): &(u32, u32)| {
            let address = PayloadAddress { segment: *segment, offset: 0, length: 4096, crc: 0 };
            Piece::stored(address, 0, *take, NamedIn::Reference).unwrap()
        };
        Value::Pieces(pieces.iter().map(piece).collect())
    }

    fn stored(tables: &Tables) -> Counts {
        let count = |value: Value| {
            let bytes = value.into_inline().unwrap();
            i64::from_le_bytes(bytes.as_ref().try_into().unwrap())
        };
        let snapshot = tables.snapshot();
        let counts = snapshot.prefix(&key::live_prefix()).map(Result::unwrap);
        counts.map(|(key, value)| (key::live_parts(&key).unwrap(), count(value))).collect()
    }

    fn put_count(tables: &Tables, segment: u32, shard: u16, bytes: i64) {
        let mut batch = tables.batch(1);
        let count = Value::Inline(Bytes::copy_from_slice(&bytes.to_le_bytes()));
        batch.put(key::live(segment, shard).into(), &count);
        batch.commit();
    }

    #[test]
    fn a_recount_corrects_the_live_bytes_of_each_segment() {
        let folder = TempDir::new().unwrap();
        let tables = Tables::open(folder.path(), 1 << 20, 1 << 20).unwrap();
        let mut batch = tables.batch(3);
        batch.put(key::map_entry(NodeId::new(0, 1), b"a"), &value(&[(3, 100), (4, 7)]));
        batch.put(key::extent(NodeId::new(0, 2), 0).into(), &value(&[(3, 50)]));
        batch.put(key::extent(NodeId::new(1, 2), 0).into(), &value(&[(3, 20)]));
        batch.commit();
        // Too low, of nothing, too high.
        put_count(&tables, 3, 0, -50);
        put_count(&tables, 9, 0, 12);
        put_count(&tables, 4, 0, 500);
        recount(&tables).unwrap();
        assert_eq!(stored(&tables), Counts::from([((3, 0), 150), ((4, 0), 7), ((3, 1), 20)]));
    }
}
