//! `BlockCache`: the blocks that one or several tenants have read, bounded by a number of bytes that
//! can change while the cache is used.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use nacre_object::{ObjectId, ObjectStat};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter};

use super::block::BLOCK_BYTES;
use super::changes::{Generation, ObjectHash};

/// The number of parts of a cache that have a lock of their own. More parts would make a small
/// cache inexact, because each part has its own bound.
const LOCKS: u64 = 4;
/// The memory of an entry in addition to its bytes and the object's name: a slot in the tables of
/// the cache, the place of an entry that was evicted lately, and three allocations.
const OVERHEAD_BYTES: usize = size_of::<(Key, Entry)>() + 128;
/// The memory of a cached block, without the name of its object.
pub const CACHED_BLOCK_BYTES: u64 = BLOCK_BYTES + OVERHEAD_BYTES as u64;
/// The part of a [`Key`] that belongs to the [`VersionEntry`] of an object; the other parts are the
/// numbers of blocks. No stream is so long that it has a block of this number.
const VERSION_PART: u64 = u64::MAX;

/// The key of an entry: a block of an object's stream by its number, or [`VERSION_PART`].
#[derive(Debug, Clone)]
struct Key {
    hash: ObjectHash,
    object: Arc<ObjectId>,
    part: u64,
}

/// A key that borrows the object's name.
struct KeyRef<'a> {
    hash: ObjectHash,
    object: &'a ObjectId,
    part: u64,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.hash.0, self.part).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.part == other.part && self.hash == other.hash && self.object == other.object
    }
}

impl Eq for Key {}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.hash.0, self.part).hash(state);
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    /// Compares the names, too: two objects may have the same hash.
    fn equivalent(&self, key: &Key) -> bool {
        self.part == key.part && self.hash == key.hash && *self.object == *key.object
    }
}

/// A block of a stream. It may be used while its generations are those of the object.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub bytes: Bytes,
    /// The generation of the whole stream.
    pub stream: Generation,
    /// The generation of the block.
    pub block: Generation,
    /// If the stream ends in this block or before it: the generation of the object's version. Any
    /// change may make the stream longer.
    pub end: Option<Generation>,
}

/// The version of an object, and the answer to a `stat` of it. Both are true of the object while
/// [`Part::Version`](super::changes::Part::Version) of the object has this generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct VersionEntry {
    pub generation: Generation,
    pub version: u64,
    /// `None` until a client has asked for it.
    pub stat: Option<ObjectStat>,
}

#[derive(Debug, Clone)]
enum Entry {
    Block(Block),
    Version(VersionEntry),
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<Key, Entry> for Weight {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        let bytes = match entry {
            Entry::Block(block) => block.bytes.len(),
            Entry::Version(_) => 0,
        };
        let name = key.object.pool.as_str().len() + key.object.name.as_str().len();
        (OVERHEAD_BYTES + bytes + name) as u64
    }
}

/// An object whose blocks are looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedObject<'a> {
    pub hash: ObjectHash,
    pub id: &'a ObjectId,
}

impl CachedObject<'_> {
    fn key(&self, part: u64) -> KeyRef<'_> {
        KeyRef { hash: self.hash, object: self.id, part }
    }
}

/// The cache.
#[derive(Debug)]
pub(super) struct BlockCache {
    entries: Cache<Key, Entry, Weight>,
    capacity: AtomicU64,
}

impl BlockCache {
    /// An empty cache of this many bytes. With 0 bytes it keeps nothing.
    pub fn new(capacity: u64) -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(rounded(capacity))
            .estimated_items_capacity((capacity / BLOCK_BYTES) as usize)
            .shards(LOCKS as usize)
            .build()
            .expect("both capacities are given");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let entries = Cache::with_options(options, Weight, hashes, lifecycle);
        Self { entries, capacity: AtomicU64::new(capacity) }
    }

    /// Changes its size. If it becomes smaller, entries that were used little are dropped at once.
    pub fn resize(&self, capacity: u64) {
        if capacity == self.capacity() {
            return;
        }
        self.entries.set_capacity(rounded(capacity));
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    /// The most bytes that it may have.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// The bytes that it has, with the memory that its entries take in addition to their content.
    pub fn used(&self) -> u64 {
        self.entries.weight()
    }

    pub fn block(&self, object: CachedObject<'_>, number: u64) -> Option<Block> {
        match self.entries.get(&object.key(number)) {
            Some(Entry::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub fn version(&self, object: CachedObject<'_>) -> Option<VersionEntry> {
        match self.entries.get(&object.key(VERSION_PART)) {
            Some(Entry::Version(entry)) => Some(entry),
            _ => None,
        }
    }

    pub fn put_block(&self, hash: ObjectHash, object: &Arc<ObjectId>, number: u64, block: Block) {
        let object = Arc::clone(object);
        self.entries.insert(Key { hash, object, part: number }, Entry::Block(block));
    }

    pub fn put_version(&self, hash: ObjectHash, object: &Arc<ObjectId>, entry: VersionEntry) {
        let object = Arc::clone(object);
        self.entries.insert(Key { hash, object, part: VERSION_PART }, Entry::Version(entry));
    }
}

/// A multiple of the number of locks, because the cache rounds the size of each part up.
fn rounded(capacity: u64) -> u64 {
    capacity / LOCKS * LOCKS
}

#[cfg(test)]
mod tests {
    use super::super::changes::{Changes, Part};
    use super::*;

    /// Puts blocks of `length` bytes; `used` must stay within the capacity.
    fn fill(cache: &BlockCache, blocks: u64, length: usize) {
        let changes = Changes::new();
        let object: Arc<ObjectId> = Arc::new("data/a".parse().unwrap());
        let hash = changes.hash(&object);
        let generation = changes.generation(hash, Part::Stream).unwrap();
        for number in 0..blocks {
            let bytes = Bytes::from(vec![7; length]);
            let block = Block { bytes, stream: generation, block: generation, end: None };
            cache.put_block(hash, &object, number, block);
            assert!(cache.used() <= cache.capacity());
        }
    }

    #[test]
    fn a_cache_never_has_more_bytes_than_it_may_have() {
        for length in [0, 1, BLOCK_BYTES as usize] {
            let cache = BlockCache::new(1 << 20);
            fill(&cache, 20_000, length);
            assert!(cache.used() > 1 << 19, "{} bytes", cache.used());
            cache.resize(100_001);
            assert!(cache.used() <= 100_001);
            fill(&cache, 2000, length);
            cache.resize(4 << 20);
            fill(&cache, 50_000, length);
            assert!(cache.used() > 2 << 20);
            cache.resize(0);
            fill(&cache, 10, length);
            assert_eq!(cache.used(), 0);
        }
    }
}
