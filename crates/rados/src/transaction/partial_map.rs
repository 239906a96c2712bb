//! The map of an object within a transaction: its fetched parts, with the transaction's changes
//! over them.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Bound;

use bytes::Bytes;
use nacre_object::{MapEntry, MapRange};
use nacre_rados_layout::{HEADER_KEY, escape_key};

use crate::ffi::{Change, Fetch, Keep};
use crate::transaction::image::{Image, range_from};
use crate::transaction::last_walk::LastWalk;
use crate::transaction::map_bounds::{first_behind_prefix, first_of_range};

/// A map as a transaction has made it so far.
#[derive(Debug)]
pub struct PartialMap<'a> {
    image: &'a Image,
    /// Whether stored entries are still visible.
    shows_stored: bool,
    /// Whether the transaction has cleared the stored map.
    cleared: bool,
    /// Keys that the transaction has set, or removed (`None`).
    changes: BTreeMap<Bytes, Option<Bytes>>,
}

impl<'a> PartialMap<'a> {
    /// The map as it is known.
    pub fn new(image: &'a Image) -> Self {
        Self { shows_stored: image.stat.is_some(), ..Self::none(image) }
    }

    /// An empty map, whatever is stored.
    pub fn none(image: &'a Image) -> Self {
        Self { image, shows_stored: false, cleared: false, changes: BTreeMap::new() }
    }

    /// Sets or removes a key.
    pub fn set(&mut self, key: &[u8], value: Option<Bytes>) {
        self.changes.insert(Bytes::copy_from_slice(key), value);
    }

    /// Removes every key.
    pub fn clear(&mut self) {
        let cleared = self.cleared || self.shows_stored;
        *self = Self { cleared, ..Self::none(self.image) };
    }

    /// The changes that give the stored map its final state, and its header if the transaction set
    /// the header. There is one change for each changed entry, however many times it was changed.
    pub fn into_changes(self, header: Option<Bytes>) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.cleared {
            // Clearing an empty map alone would not be a change to RADOS.
            changes.extend([Change::ClearMap, Change::Create]);
        }
        let (mut removed, mut set) = (Vec::new(), Vec::new());
        for (key, value) in self.changes {
            let key = Bytes::from(escape_key(&key));
            match value {
                Some(value) => set.push((key, value)),
                None if self.shows_stored => removed.push(key),
                None => {}
            }
        }
        let header = header.filter(|header| self.shows_stored || !header.is_empty());
        set.extend(header.map(|header| (Bytes::from_static(HEADER_KEY), header)));
        if !removed.is_empty() {
            changes.push(Change::RemoveKeys(removed));
        }
        if !set.is_empty() {
            changes.push(Change::SetKeys(set));
        }
        changes
    }

    /// The value of a key; `None` if the key was not fetched.
    pub fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        match self.changes.get(key) {
            Some(value) => Some(value.clone()),
            None if self.shows_stored => self.image.entry(key),
            None => Some(None),
        }
    }

    /// The entries with `prefix` after the key `after`, at most `limit` entries and `max_bytes`
    /// bytes.
    ///
    /// # Errors
    /// The parts to fetch first, if these entries are not in the image yet.
    pub fn range(
        &self,
        after: &[u8],
        prefix: &[u8],
        limit: usize,
        max_bytes: usize,
    ) -> Result<MapRange, Fetch> {
        let first = first_of_range(after, prefix);
        let known = self.known_until(&first);
        let mut range = MapRange::default();
        let mut bytes = 0;
        for (key, value) in self.entries(&first, prefix, known.as_deref()) {
            bytes += key.len() + value.len();
            if range.entries.len() == limit || bytes > max_bytes {
                range.more = true;
                return Ok(range);
            }
            range.entries.push(MapEntry { key: key.clone(), value: value.clone() });
        }
        match self.unknown_part(known, prefix) {
            None => Ok(range),
            Some(known) => {
                let wanted = limit - range.entries.len() + 1;
                let affordable = match range.entries.len() {
                    // Nothing is known of the entries, so some are possibly as large as allowed.
                    0 => FIRST_FETCHED_ENTRIES,
                    // The next may be larger than those seen.
                    found => {
                        (max_bytes * found / bytes.max(1)).min(2 * found).max(FIRST_FETCHED_ENTRIES)
                    }
                };
                Err(range_from(&known, prefix, wanted.min(affordable) + 1, Keep::All))
            }
        }
    }

    /// The last entry with `prefix`.
    ///
    /// # Errors The parts to fetch first, if too little is known.
    pub fn last(&self, prefix: &[u8]) -> Result<Option<MapEntry>, Fetch> {
        let known = self.known_until(prefix);
        let entry =
            |(key, value): (&Bytes, &Bytes)| MapEntry { key: key.clone(), value: value.clone() };
        let Some(unknown) = self.unknown_part(known.clone(), prefix) else {
            return Ok(self.entries(prefix, prefix, known.as_deref()).last().map(entry));
        };
        let fresh = LastWalk::new(prefix);
        let stored = self.image.last_walk(prefix).unwrap_or(&fresh).end(prefix)?;
        if stored.is_some_and(|(key, _)| self.changes.get(key) == Some(&None)) {
            // The walk has not kept the entries before the last one.
            return Err(range_from(&unknown, prefix, FIRST_FETCHED_ENTRIES, Keep::All));
        }
        let changes = self.changes.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let changes = changes.take_while(|(key, _)| key.starts_with(prefix));
        let set = changes.filter_map(|(key, value)| Some((key, value.as_ref()?))).last();
        // Where both have the key, the change counts.
        let later = match (stored, set) {
            (Some(stored), Some(set)) if stored.0 > set.0 => Some(stored),
            (stored, set) => set.or(stored),
        };
        Ok(later.map(entry))
    }

    fn known_until(&self, first: &[u8]) -> Option<Bytes> {
        if self.shows_stored { self.image.known_until(first) } else { None }
    }

    /// Where the unknown begins, if it begins before the end of the prefix.
    fn unknown_part(&self, known: Option<Bytes>, prefix: &[u8]) -> Option<Bytes> {
        let behind = first_behind_prefix(prefix);
        known.filter(|known| behind.is_none_or(|behind| *known < behind))
    }

    /// The entries with `prefix` from `first` until `known`, in key order.
    fn entries<'b>(
        &'b self,
        first: &'b [u8],
        prefix: &'b [u8],
        known: Option<&'b [u8]>,
    ) -> impl Iterator<Item = (&'b Bytes, &'b Bytes)> {
        let base = self.shows_stored.then(|| self.image.entries_from(first));
        let base = base.into_iter().flatten();
        let changes = self.changes.range::<[u8], _>((Bound::Included(first), Bound::Unbounded));
        let merged = Merged { base: base.peekable(), changes: changes.peekable() };
        merged.take_while(move |(key, _)| {
            key.starts_with(prefix) && known.is_none_or(|known| ***key < *known)
        })
    }
}

/// How many entries to fetch if their size is not known. Even with the largest values they fit into
/// memory.
const FIRST_FETCHED_ENTRIES: usize = 64;

/// Merges two sorted sequences. If both have a key, the change counts.
struct Merged<B: Iterator, C: Iterator> {
    base: Peekable<B>,
    changes: Peekable<C>,
}

impl<'b, B, C> Iterator for Merged<B, C>
where
    B: Iterator<Item = (&'b Bytes, &'b Bytes)>,
    C: Iterator<Item = (&'b Bytes, &'b Option<Bytes>)>,
{
    type Item = (&'b Bytes, &'b Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let changed = self.changes.peek().map(|(key, _)| *key);
            match (self.base.peek(), changed) {
                (Some((key, _)), Some(changed)) if *key < changed => return self.base.next(),
                (Some((key, _)), Some(changed)) if *key == changed => {
                    self.base.next();
                }
                (Some(_), None) => return self.base.next(),
                (None, None) => return None,
                (_, Some(_)) => {
                    if let Some((key, Some(value))) = self.changes.next() {
                        return Some((key, value));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::limits::MAX_REPLY_BYTES;

    use super::*;
    use crate::ffi::Fetched;

    #[test]
    fn each_fetch_of_a_map_is_at_most_as_large_as_all_earlier_fetches() {
        let entry = |n: usize| (Bytes::from(format!("{n:04}")), Bytes::from_static(b"small"));
        let mut image = Image::default();
        let first = range_from(b"", b"", FIRST_FETCHED_ENTRIES, Keep::All);
        let entries = (0..FIRST_FETCHED_ENTRIES).map(entry).collect();
        let fetched = vec![
            Fetched::Stat { size: 0, modified_seconds: 0 },
            Fetched::Range { entries, more: true },
        ];
        image.learn(&[Fetch::Stat, first], fetched).unwrap();
        match PartialMap::new(&image).range(b"", b"", 4096, MAX_REPLY_BYTES) {
            Err(Fetch::Range { limit, .. }) => {
                assert!(limit as usize <= 2 * FIRST_FETCHED_ENTRIES + 1, "{limit}");
            }
            other => panic!("{other:?}"),
        }
    }
}
