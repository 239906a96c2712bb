//! Hash tables that each request looks up. Their hash function takes a small part of the time of the
//! standard library's, and each process seeds it at random, so clients cannot choose names that
//! collide.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A hash table.
pub type FastHashMap<K, V> = HashMap<K, V, RandomState>;
/// A set of hashed values.
pub type FastHashSet<T> = HashSet<T, RandomState>;
