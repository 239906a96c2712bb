//! The entries of the tables: how keys and values are encoded, and what a shard remembers of them.

pub(crate) mod codec;
pub(crate) mod gaps;
pub(crate) mod head;
pub(crate) mod key;
pub(crate) mod key_hashes;
pub(crate) mod known;
pub(crate) mod layers;
pub(crate) mod value;
