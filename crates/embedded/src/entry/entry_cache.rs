//! A shard's cache of single table entries. Transactions ask it before they look into the tables.
//!
//! A look-up in the tables costs one or several microseconds of cache misses, and a writer often
//! needs an entry that it has just written. The cache has two generations. An entry that is looked
//! up, changed or found here goes to the newer one. When the newer generation is full, it becomes
//! the older one, and the entries of the former older one are dropped.
//!
//! **Invariants:**
//! - A cached entry equals the entry in the tables, or the shard's newer change of it. So the cache
//!   keeps only keys that no other shard changes, and the shard notes every change in the cache
//!   before its next transaction.
//! - Dropping an entry costs time only.

use std::collections::HashMap;

use bytes::Bytes;

use crate::entry::key::{Key, is_of_shard};
use crate::entry::key_hashes::KeyHashes;
use crate::entry::value::{Piece, Source, Value};
use crate::transaction::change_set::Overlay;

/// The approximate memory of one generation of the cache, in bytes. Each shard's cache has two
/// generations, so the caches of four shards take at most 24 MiB: some 130,000 small entries.
/// Measured: with a quarter of this, a writer that sets 64,000 keys in turn gets slower.
const MAX_BYTES: usize = 3 * 1024 * 1024;
/// Longer keys and values are not cached: a few of them would displace many short ones.
const MAX_KEY_BYTES: usize = 128;
const MAX_VALUE_BYTES: usize = 256;

const _: () = assert!(MAX_KEY_BYTES + MAX_VALUE_BYTES + OVERHEAD_BYTES < MAX_BYTES / 1024);

/// The memory of an entry in addition to its key and value: a slot in a half-full hash table and
/// two allocations.
const OVERHEAD_BYTES: usize = 2 * size_of::<(Key, Entry)>() + 32;

/// A cached entry: the value under a key, or `None` if the tables have no such key. The value is a
/// few bytes, or one piece of a payload in the journal.
type Entry = Option<Value>;

/// The entries a shard knows.
#[derive(Debug)]
pub(crate) struct EntryCache {
    shard: u16,
    newer: Generation,
    older: Generation,
}

impl EntryCache {
    pub fn new(shard: u16) -> Self {
        let hashes = KeyHashes::drawn();
        Self { shard, newer: Generation::of(hashes.clone()), older: Generation::of(hashes) }
    }

    /// The cached value of a key, or `None` if the key is not cached. The inner `None` means that
    /// the tables have no such key.
    pub fn get(&mut self, key: &[u8]) -> Option<Option<Value>> {
        if let Some(entry) = self.newer.entries.get(key) {
            return Some(entry.clone());
        }
        let (key, entry) = self.older.remove(key)?;
        self.insert(key, entry.clone());
        Some(entry)
    }

    /// Caches the value that the tables have under a key. The shard's recent changes must not have
    /// the key.
    pub fn remember(&mut self, key: &[u8], value: &Value) {
        if !is_of_shard(self.shard, key) || key.len() > MAX_KEY_BYTES {
            return;
        }
        if let Some(entry) = kept(Some(value)) {
            self.insert(key.into(), entry);
        }
    }

    /// Updates the cache with the changes of a transaction.
    pub fn note(&mut self, changes: &Overlay) {
        for (key, value) in changes {
            self.older.remove(key);
            match kept(value.as_ref()) {
                Some(entry) if key.len() <= MAX_KEY_BYTES => self.insert(key.clone(), entry),
                _ => drop(self.newer.remove(key)),
            }
        }
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        if self.newer.bytes >= MAX_BYTES {
            std::mem::swap(&mut self.older, &mut self.newer);
            self.newer.clear();
        }
        self.newer.insert(key, entry);
    }
}

/// Entries, and the memory they take.
#[derive(Debug)]
struct Generation {
    entries: HashMap<Key, Entry, KeyHashes>,
    bytes: usize,
}

impl Generation {
    fn of(hashes: KeyHashes) -> Self {
        Self { entries: HashMap::with_hasher(hashes), bytes: 0 }
    }

    /// Forgets all entries but keeps their memory, because the next entries need as much.
    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    fn insert(&mut self, key: Key, entry: Entry) {
        let key_bytes = key.len();
        self.bytes += cost(key_bytes, &entry);
        if let Some(replaced) = self.entries.insert(key, entry) {
            self.bytes -= cost(key_bytes, &replaced);
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<(Key, Entry)> {
        let (key, entry) = self.entries.remove_entry(key)?;
        self.bytes -= cost(key.len(), &entry);
        Some((key, entry))
    }
}

/// The memory that an entry takes.
fn cost(key_bytes: usize, entry: &Entry) -> usize {
    OVERHEAD_BYTES + key_bytes + entry.as_ref().map_or(0, Value::memory_bytes)
}

/// Returns a copy of the value for the cache, or `None` if the value is too long to cache. It is a
/// copy because a slice of a request's bytes would keep the whole request in memory. The copy may
/// contain the address of a payload that is not on disk yet. That is safe: until the payload is on
/// disk, look-ups find the key among the shard's recent changes first.
fn kept(value: Option<&Value>) -> Option<Entry> {
    match value {
        None => Some(None),
        Some(Value::Inline(data)) if data.len() <= MAX_VALUE_BYTES => {
            Some(Some(Value::Inline(Bytes::copy_from_slice(data))))
        }
        Some(Value::Pieces(pieces)) if pieces.len() == 1 => {
            let source = Source::Stored(*pieces[0].source.address()?);
            Some(Some(Value::Pieces(vec![Piece { source, ..pieces[0] }])))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::Random;

    use super::*;
    use crate::entry::key::{self, NodeId};
    use crate::entry::value::{NamedIn, PayloadAddress};

    const SHARD: u16 = 3;

    fn key_of(n: u64) -> Key {
        key::map_entry(NodeId::new(SHARD, 1), &n.to_be_bytes())
    }

    fn inline(length: usize) -> Value {
        Value::Inline(Bytes::from(vec![7; length]))
    }

    fn placed(length: u32) -> Value {
        let address = PayloadAddress { segment: 1, offset: 2, length, crc: 3 };
        let data = Bytes::from(vec![7; length as usize]);
        let source = Source::Unsynced(address, data);
        Value::Pieces(vec![Piece { source, skip: 0, take: length, named_in: NamedIn::Record }])
    }

    /// Some lengths are of bytes, some of a piece.
    fn value_of(length: usize) -> Value {
        if length.is_multiple_of(3) { placed(length as u32) } else { inline(length) }
    }

    fn length(value: Option<Value>) -> Option<u64> {
        value.map(|value| value.len())
    }

    #[test]
    fn the_entry_cache_holds_the_last_value_put_whatever_it_evicts() {
        let mut random = Random::seeded(1);
        let (mut cache, mut held) = (EntryCache::new(SHARD), HashMap::new());
        let keys = 3 * (MAX_BYTES / OVERHEAD_BYTES) as u64;
        let mut hits = 0;
        for _ in 0..30 * keys {
            // Some keys more often than others.
            let most = random.below(keys) + 1;
            let n = random.below(most);
            if random.below(3) == 0 {
                let value = (random.below(4) > 0).then(|| random.below(300) as usize);
                cache.note(&Overlay::from([(key_of(n), value.map(value_of))]));
                held.insert(n, value);
                continue;
            }
            let there = held.get(&n).copied().flatten();
            match cache.get(&key_of(n)) {
                Some(value) => {
                    hits += 1;
                    assert_eq!(length(value), there.map(|length| length as u64));
                }
                None => {
                    there.map(value_of).iter().for_each(|value| cache.remember(&key_of(n), value))
                }
            }
            let most = MAX_BYTES + OVERHEAD_BYTES + MAX_KEY_BYTES + MAX_VALUE_BYTES;
            assert!(cache.newer.bytes <= most && cache.older.bytes <= most);
        }
        for generation in [&cache.newer, &cache.older] {
            let costs = generation.entries.iter().map(|(key, entry)| cost(key.len(), entry));
            assert_eq!(costs.sum::<usize>(), generation.bytes);
        }
        assert!(hits > 5 * keys, "{hits}");
    }

    #[test]
    fn the_entry_cache_keeps_a_single_piece_without_its_bytes_and_no_list_of_pieces() {
        let mut cache = EntryCache::new(SHARD);
        cache.note(&Overlay::from([(key_of(1), Some(placed(5000)))]));
        let Some(Some(Value::Pieces(pieces))) = cache.get(&key_of(1)) else { panic!("not kept") };
        assert!(matches!(pieces[0].source, Source::Stored(_)));
        assert_eq!((pieces[0].skip, pieces[0].take), (0, 5000));
        let several = Value::Pieces([pieces.clone(), pieces].concat());
        cache.note(&Overlay::from([(key_of(1), Some(several))]));
        assert!(cache.get(&key_of(1)).is_none());
    }

    #[test]
    fn the_entry_cache_keeps_no_keys_of_other_shards_and_no_long_entries() {
        let mut cache = EntryCache::new(SHARD);
        let other = key::map_entry(NodeId::new(SHARD + 1, 1), b"a");
        let long = key::map_entry(NodeId::new(SHARD, 1), &[1; MAX_KEY_BYTES]);
        for key in [&other, &long] {
            cache.remember(key, &inline(1));
            assert!(cache.get(key).is_none());
        }
        cache.remember(&key_of(1), &inline(MAX_VALUE_BYTES + 1));
        assert!(cache.get(&key_of(1)).is_none());
        cache.remember(&key_of(1), &inline(MAX_VALUE_BYTES));
        cache.note(&Overlay::from([(key_of(1), Some(inline(MAX_VALUE_BYTES + 1)))]));
        assert!(cache.get(&key_of(1)).is_none(), "it is another now");
    }
}
