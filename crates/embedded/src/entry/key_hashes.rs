//! Hashes of keys of the tables.

use std::hash::{BuildHasher, Hasher};

use nacre_clock::Random;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A fast hash for keys. The standard library's hash took 0.2 us of each appended log record.
#[derive(Debug, Clone)]
pub(crate) struct KeyHashes {
    seed: u64,
}

impl KeyHashes {
    /// Hashes with a random seed, because clients choose keys and must not cause collisions.
    pub fn drawn() -> Self {
        Self { seed: Random::from_system().next_u64() }
    }
}

impl BuildHasher for KeyHashes {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.seed)
    }
}

/// The hash of one key.
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// Ignores the length, because the hash in `write` covers it.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
