//! A cache of table entries (rows) that read-only requests looked up.
//!
//! A look-up in the tables costs one or several microseconds of cache misses, and a read of a small
//! object takes two look-ups. A cached row records the sequence number of the snapshot that it was
//! read from.
//!
//! A write does not update or drop the cached row of its key, because finding the row would cost a
//! look-up. Instead, the write stores its sequence number in a slot, which the key's hash selects;
//! many keys share a slot. A reader uses a row only if the slot's number exceeds neither the row's
//! number nor the number of the reader's snapshot. So keys that change often miss the cache.
//!
//! **Invariants:**
//! - A change is noted in its slot before any snapshot can see the change.
//! - So when a reader has a snapshot, the slot knows of every change in that snapshot. The same
//!   holds for the snapshot from which a row was cached.
//! - So if a slot has not changed since the earlier of two snapshots, its keys have the same values
//!   in both.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_tree::SeqNo;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::entry::key::Key;
use crate::entry::key_hashes::KeyHashes;
use crate::entry::value::Value;

/// The approximate memory of all cached rows, in bytes. That is some 30,000 small rows.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Longer keys and values are not cached: a few of them would displace many short ones.
const MAX_KEY_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 512;
/// The memory of a row in addition to its key and value: a slot in the cache's tables and two
/// allocations.
const OVERHEAD_BYTES: usize = size_of::<(Key, Row)>() + 96;
/// The number of slots that record when a key last changed. Keys share slots, so a change of one
/// key also invalidates the cached rows of others. There are twice as many slots as rows, so that
/// few rows are affected.
const SLOTS: usize = 1 << 16;

const _: () = assert!(SLOTS.is_power_of_two());
const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES + OVERHEAD_BYTES < MAX_BYTES as usize / 1024);

/// The value that a key had in the snapshot `number`.
#[derive(Debug, Clone)]
struct Row {
    value: Value,
    number: SeqNo,
}

/// Rows that were looked up.
#[derive(Debug)]
pub(super) struct RowCache {
    rows: Cache<Key, Row, RowWeight, KeyHashes>,
    /// For each slot, the number of the last change of one of its keys.
    unchanged_since: Box<[AtomicU64]>,
    hashes: KeyHashes,
}

impl RowCache {
    pub fn new() -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(MAX_BYTES)
            .estimated_items_capacity(MAX_BYTES as usize / (2 * OVERHEAD_BYTES))
            .build()
            .expect("both capacities are given");
        let (hashes, lifecycle) = (KeyHashes::drawn(), DefaultLifecycle::default());
        Self {
            rows: Cache::with_options(options, RowWeight, hashes.clone(), lifecycle),
            unchanged_since: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            hashes,
        }
    }

    fn slot(&self, key: &[u8]) -> &AtomicU64 {
        &self.unchanged_since[self.hashes.hash_one(key) as usize % SLOTS]
    }

    /// Notes that the value under a key changes at `number`. Successive calls must pass rising
    /// numbers.
    pub fn note_change(&self, key: &[u8], number: SeqNo) {
        self.slot(key).store(number, Ordering::Release);
    }

    /// The value under a key in the snapshot `number`, if it is cached and still valid.
    pub fn get(&self, key: &[u8], number: SeqNo) -> Option<Value> {
        let row = self.rows.get(key)?;
        // Read the slot after the row, so that the slot knows of every change that the row
        // contains.
        let unchanged_since = self.slot(key).load(Ordering::Acquire);
        (unchanged_since <= number.min(row.number)).then_some(row.value)
    }

    /// Caches the value that a key has in the snapshot `number`.
    pub fn remember(&self, key: &[u8], value: &Value, number: SeqNo) {
        let is_small = match value {
            Value::Inline(data) => data.len() <= MAX_VALUE_BYTES,
            Value::Pieces(pieces) => pieces.len() == 1,
        };
        let is_current = self.slot(key).load(Ordering::Acquire) <= number;
        if is_small && is_current && key.len() <= MAX_KEY_BYTES {
            self.rows.insert(key.into(), Row { value: value.clone(), number });
        }
    }
}

/// The memory that a row takes.
#[derive(Debug, Clone)]
struct RowWeight;

impl Weighter<Key, Row> for RowWeight {
    fn weight(&self, key: &Key, row: &Row) -> u64 {
        (OVERHEAD_BYTES + key.len() + row.value.memory_bytes()) as u64
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use nacre_clock::Random;

    use super::*;
    use crate::entry::key::{self, NodeId};

    const KEYS: u64 = 3 * MAX_BYTES / OVERHEAD_BYTES as u64;

    fn key_of(n: u64) -> Key {
        key::map_entry(NodeId::new(1, 1), &n.to_be_bytes())
    }

    fn value_of(number: SeqNo) -> Value {
        Value::Inline(Bytes::copy_from_slice(&number.to_le_bytes()))
    }

    fn bytes_of(value: Value) -> Bytes {
        value.into_inline().unwrap()
    }

    /// The numbers at which each key was put.
    struct Model(Vec<Vec<SeqNo>>);

    impl Model {
        fn at(&self, n: u64, number: SeqNo) -> Option<Value> {
            let puts = self.0[n as usize].iter().rev();
            puts.copied().find(|put| *put <= number).map(value_of)
        }
    }

    #[test]
    fn a_cached_row_has_the_value_that_the_snapshot_sees() {
        let (cache, mut random) = (RowCache::new(), Random::seeded(1));
        let mut model = Model(vec![Vec::new(); KEYS as usize]);
        let (mut latest, mut known, mut disbelieved) = (1, 0, 0);
        for _ in 0..20 * KEYS {
            // Some keys more often than others.
            let most = random.below(KEYS) + 1;
            let n = random.below(most);
            if random.below(20) == 0 {
                latest += 1;
                cache.note_change(&key_of(n), latest);
                model.0[n as usize].push(latest);
                continue;
            }
            let number = latest - random.below(latest.min(50));
            let there = model.at(n, number);
            match (cache.get(&key_of(n), number), there) {
                (Some(value), there) => {
                    known += 1;
                    assert_eq!(Some(bytes_of(value)), there.map(bytes_of), "key {n} at {number}");
                }
                (None, Some(there)) => {
                    disbelieved += u64::from(cache.rows.contains_key(&key_of(n)));
                    cache.remember(&key_of(n), &there, number);
                }
                (None, None) => {}
            }
            assert!(cache.rows.weight() <= MAX_BYTES);
        }
        assert!(known > 5 * KEYS && disbelieved > 1000, "{known} known, {disbelieved} disbelieved");
    }

    #[test]
    fn a_row_read_before_a_change_is_not_cached() {
        let (cache, key) = (RowCache::new(), key_of(1));
        cache.note_change(&key, 5);
        cache.remember(&key, &value_of(4), 4);
        assert!(!cache.rows.contains_key(&key));
        cache.remember(&key, &value_of(5), 5);
        assert!(cache.get(&key, 4).is_none(), "who looks at an earlier moment sees another");
        assert!(cache.get(&key, 5).is_some() && cache.get(&key, 6).is_some());
    }

    #[test]
    fn long_keys_and_values_are_not_cached() {
        let cache = RowCache::new();
        let inline = |length| Value::Inline(Bytes::from(vec![7; length]));
        let long = key::map_entry(NodeId::new(1, 1), &[1; MAX_KEY_BYTES]);
        cache.remember(&long, &inline(1), 1);
        cache.remember(&key_of(1), &inline(MAX_VALUE_BYTES + 1), 1);
        assert!(cache.rows.is_empty());
        cache.remember(&key_of(1), &inline(MAX_VALUE_BYTES), 1);
        assert_eq!(cache.rows.len(), 1);
    }
}
