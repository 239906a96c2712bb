//! Finds the last entry with a prefix. RADOS cannot list backwards, so this walks over all entries
//! with the prefix. The walk does not keep the entries that it passes.

use bytes::Bytes;
use nacre_object::limits::MAX_REPLY_BYTES;

use crate::ffi::{Fetch, Keep};
use crate::transaction::image::{MAX_FETCHED_ENTRIES, range_from};
use crate::transaction::map_bounds::next_key;

/// How many entries the first step reads, when the size of entries is not known yet. Even with the
/// largest values, they fit into memory.
const FIRST_ENTRIES: usize = 64;
/// The fewest entries of a later step. Even the largest entries then fit into a reply.
const FEWEST_ENTRIES: usize = 8;

/// How far a walk is.
#[derive(Debug, Clone)]
pub struct LastWalk {
    /// The last entry so far.
    last: Option<(Bytes, Bytes)>,
    /// The first key that the walk has not reached; `None` at the end.
    next: Option<Vec<u8>>,
    /// Entries to ask for next.
    entries: usize,
}

impl LastWalk {
    /// Begins a walk.
    pub fn new(prefix: &[u8]) -> Self {
        Self { last: None, next: Some(prefix.to_vec()), entries: FIRST_ENTRIES }
    }

    /// Passes an entry.
    pub fn pass(&mut self, key: Vec<u8>, value: Bytes) {
        self.next = Some(next_key(&key));
        self.last = Some((key.into(), value));
    }

    /// Skips keys that are not entries, up to `next`.
    pub fn pass_until(&mut self, next: Vec<u8>) {
        self.next = Some(next);
    }

    /// Notes that no entries are left.
    pub fn arrive(&mut self) {
        self.next = None;
    }

    /// Adapts the length of the next step to the number and bytes of the last entries.
    pub fn pace(&mut self, entries: usize, bytes: usize) {
        let affordable = MAX_REPLY_BYTES / (bytes / entries.max(1)).max(1);
        // The next entries may be larger than these.
        let affordable = affordable.min(2 * self.entries);
        self.entries = affordable.clamp(FEWEST_ENTRIES, MAX_FETCHED_ENTRIES);
    }

    /// The last entry.
    ///
    /// # Errors The part to fetch next, if the walk is not done.
    pub fn end(&self, prefix: &[u8]) -> Result<Option<(&Bytes, &Bytes)>, Fetch> {
        match &self.next {
            Some(next) => Err(range_from(next, prefix, self.entries, Keep::Last)),
            None => Ok(self.last.as_ref().map(|(key, value)| (key, value))),
        }
    }

    /// Bytes that it keeps.
    pub fn kept(&self) -> usize {
        self.last.as_ref().map_or(0, |(key, value)| key.len() + value.len())
    }
}
