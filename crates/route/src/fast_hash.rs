//! Hash tables in which the switch looks up each request. Their hash function is quicker than that of
//! the standard library. Its seed is random in each process, so clients cannot choose names that
//! collide.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A hash table.
pub type FastHashMap<K, V> = HashMap<K, V, RandomState>;
/// A set of hashed values.
pub type FastHashSet<T> = HashSet<T, RandomState>;
