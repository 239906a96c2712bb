//! The entries of the tables: the encoding of keys and values, and each shard's caches of them.

pub(crate) mod codec;
pub(crate) mod entry_cache;
pub(crate) mod gaps;
pub(crate) mod head;
pub(crate) mod key;
pub(crate) mod key_hashes;
pub(crate) mod layers;
pub(crate) mod value;
