//! The map within a transaction: omap entries of the OSD, with changes over them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use bytes::Bytes;
use nacre_object::{Error, MapEntry, MapRange, Result};
use nacre_rados_layout::{HEADER_KEY, StoredKey, escape_key, unescape_key};

use crate::last_entry::last_stored;
use crate::osd_object::StoredRange;
use crate::{Change, OsdObject};

/// How many entries the first page has, when the size of entries is not known yet. They fit into
/// memory even if all are as large as possible.
const FIRST_PAGE_ENTRIES: usize = 8;
/// The most entries in one page: an OSD returns no more by default.
const MAX_PAGE_ENTRIES: usize = 1024;
/// How many entries a walk to the last entry may visit. The limit is needed because a walk cannot
/// be interrupted and delays other objects. A walk over this many entries takes about as long as a
/// program may run.
const MAX_WALKED_ENTRIES: usize = 100_000;
/// The approximate size of a page in bytes.
const PAGE_BYTES: usize = 1024 * 1024;

/// A map as a transaction has made it so far.
#[derive(Debug)]
pub(crate) struct Map {
    /// Whether stored entries are still visible.
    shows_stored: bool,
    /// Whether the transaction has cleared the stored map.
    cleared: bool,
    /// Keys that the transaction has set, or removed (`None`).
    changes: BTreeMap<Bytes, Option<Bytes>>,
    /// The header, if the transaction has set it.
    header: Option<Bytes>,
}

impl Map {
    /// The stored map, without changes.
    pub fn stored() -> Self {
        Self { shows_stored: true, ..Self::none() }
    }

    /// An empty map, whatever the OSD stores.
    pub fn none() -> Self {
        Self { shows_stored: false, cleared: false, changes: BTreeMap::new(), header: None }
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8], object: &mut dyn OsdObject) -> Result<Option<Bytes>> {
        match self.changes.get(key) {
            Some(value) => Ok(value.clone()),
            None if self.shows_stored => object.entry(&escape_key(key)),
            None => Ok(None),
        }
    }

    /// The header.
    pub fn header(&self, object: &mut dyn OsdObject) -> Result<Bytes> {
        match &self.header {
            Some(header) => Ok(header.clone()),
            None if self.shows_stored => Ok(object.entry(HEADER_KEY)?.unwrap_or_default()),
            None => Ok(Bytes::new()),
        }
    }

    /// Sets or removes a key.
    pub fn set(&mut self, key: &[u8], value: Option<Bytes>) {
        self.changes.insert(Bytes::copy_from_slice(key), value);
    }

    /// Sets the header.
    pub fn set_header(&mut self, value: Bytes) {
        self.header = Some(value);
    }

    /// Removes every key and the header.
    pub fn clear(&mut self) {
        let cleared = self.cleared || self.shows_stored;
        *self = Self { cleared, ..Self::none() };
    }

    /// Entries with `prefix` behind `after`, at most `limit` and `max_bytes`.
    pub fn range(
        &self,
        after: &[u8],
        prefix: &[u8],
        (limit, max_bytes): (usize, usize),
        object: &mut dyn OsdObject,
    ) -> Result<MapRange> {
        let mut entries = self.entries(after, prefix, limit, object);
        let mut range = MapRange::default();
        let mut bytes = 0;
        while let Some((key, value)) = entries.next()? {
            bytes += key.len() + value.len();
            if range.entries.len() == limit || bytes > max_bytes {
                range.more = true;
                break;
            }
            range.entries.push(MapEntry { key, value });
        }
        Ok(range)
    }

    /// The last entry with `prefix`.
    pub fn last(&self, prefix: &[u8], object: &mut dyn OsdObject) -> Result<Option<MapEntry>> {
        let with_prefix = |(key, _): &(&Bytes, _)| key.starts_with(prefix);
        let from_prefix =
            self.changes.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let removes = from_prefix.take_while(with_prefix).any(|(_, value)| value.is_none());
        if removes {
            return self.last_of_all(prefix, object);
        }
        let stored = match self.shows_stored {
            true => last_stored(&escape_key(prefix), object)?,
            false => None,
        };
        let stored = match stored {
            None => None,
            Some((stored_key, value)) => match unescape_key(&stored_key) {
                StoredKey::Entry(key) => Some((Bytes::from(key), value)),
                StoredKey::Header => return self.last_of_all(prefix, object),
                StoredKey::Foreign => return Err(foreign_key()),
            },
        };
        let from_prefix =
            self.changes.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let set = from_prefix.take_while(with_prefix).last();
        let set = set.and_then(|(key, value)| Some((key.clone(), value.clone()?)));
        // Where both have the key, the change counts.
        let later = match (stored, set) {
            (Some(stored), Some(set)) if stored.0 > set.0 => Some(stored),
            (stored, set) => set.or(stored),
        };
        Ok(later.map(|(key, value)| MapEntry { key, value }))
    }

    /// Whether the transaction has only set keys or the header.
    pub fn only_sets(&self) -> bool {
        let sets = !self.changes.is_empty() || self.header.is_some();
        sets && !self.cleared && self.changes.values().all(Option::is_some)
    }

    /// The changes that give the stored map its new state. If `fresh`, the object has no stored
    /// map.
    pub fn changes(self, fresh: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.cleared && !fresh {
            changes.push(Change::ClearMap);
        }
        let fresh = fresh || self.cleared;
        let mut set = Vec::new();
        for (key, value) in self.changes {
            let key = Bytes::from(escape_key(&key));
            match value {
                Some(value) => set.push((key, value)),
                None if fresh => {}
                None => changes.push(Change::RemoveEntry(key)),
            }
        }
        set.extend(self.header.map(|header| (Bytes::from_static(HEADER_KEY), header)));
        if !set.is_empty() {
            changes.push(Change::SetEntries(set));
        }
        changes
    }

    /// Finds the last entry by a walk over all entries.
    fn last_of_all(&self, prefix: &[u8], object: &mut dyn OsdObject) -> Result<Option<MapEntry>> {
        let mut entries = self.entries(&[], prefix, usize::MAX, object);
        let mut last = None;
        for _ in 0..MAX_WALKED_ENTRIES {
            match entries.next()? {
                Some((key, value)) => last = Some(MapEntry { key, value }),
                None => return Ok(last),
            }
        }
        let text = format!("the last key is not among the first {MAX_WALKED_ENTRIES} keys");
        Err(Error::exhausted(text).hint("read it in another transaction than the removal of keys"))
    }

    fn entries<'a>(
        &'a self,
        after: &[u8],
        prefix: &[u8],
        expected: usize,
        object: &'a mut dyn OsdObject,
    ) -> Entries<'a> {
        let start = if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
        let changes = self.changes.range::<[u8], _>((start, Bound::Unbounded));
        let prefix = prefix.to_vec();
        let own_prefix = prefix.clone();
        let changes = changes.take_while(move |(key, _)| key.starts_with(&own_prefix));
        let changes: VecDeque<_> = changes.collect();
        let stored = StoredPages {
            object,
            after: escape_key(after),
            prefix: escape_key(&prefix),
            page: VecDeque::new(),
            more: self.shows_stored,
            page_entries: expected.saturating_add(1).min(FIRST_PAGE_ENTRIES),
        };
        Entries { stored, changes }
    }
}

/// Stored entries and changes as one sequence in key order.
struct Entries<'a> {
    stored: StoredPages<'a>,
    changes: VecDeque<(&'a Bytes, &'a Option<Bytes>)>,
}

impl Entries<'_> {
    fn next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        loop {
            let changed = self.changes.front().map(|(key, _)| *key);
            match (self.stored.peek()?, changed) {
                (Some(stored), Some(changed)) if stored < changed => return Ok(self.stored.take()),
                (Some(_), None) => return Ok(self.stored.take()),
                (None, None) => return Ok(None),
                // Where both have the key, the change counts.
                (Some(stored), Some(changed)) if stored == changed => {
                    self.stored.take();
                }
                (_, Some(_)) => {
                    if let Some((key, Some(value))) = self.changes.pop_front() {
                        return Ok(Some((key.clone(), value.clone())));
                    }
                }
            }
        }
    }
}

/// The stored entries of the map, read a page at a time.
struct StoredPages<'a> {
    object: &'a mut dyn OsdObject,
    /// The last key that was read, in its stored form; at first the key to begin after.
    after: Vec<u8>,
    prefix: Vec<u8>,
    page: VecDeque<(Bytes, Bytes)>,
    more: bool,
    /// How many entries to read at once. The number at most doubles from page to page, as their
    /// size becomes known.
    page_entries: usize,
}

impl StoredPages<'_> {
    fn peek(&mut self) -> Result<Option<&Bytes>> {
        while self.page.is_empty() && self.more {
            let range = self.object.range(&self.after, &self.prefix, self.page_entries)?;
            self.take_in(range)?;
        }
        Ok(self.page.front().map(|(key, _)| key))
    }

    fn take(&mut self) -> Option<(Bytes, Bytes)> {
        self.page.pop_front()
    }

    fn take_in(&mut self, StoredRange { entries, more }: StoredRange) -> Result<()> {
        let Some((last, _)) = entries.last() else {
            self.more = false;
            return Ok(());
        };
        self.after = last.to_vec();
        self.more = more;
        let bytes: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
        let affordable = PAGE_BYTES / (bytes / entries.len()).max(1);
        // The next entries may be larger than these.
        let affordable = affordable.min(2 * self.page_entries);
        self.page_entries = affordable.clamp(FIRST_PAGE_ENTRIES, MAX_PAGE_ENTRIES);
        for (stored_key, value) in entries {
            match unescape_key(&stored_key) {
                StoredKey::Entry(key) => self.page.push_back((key.into(), value)),
                StoredKey::Header => {}
                StoredKey::Foreign => return Err(foreign_key()),
            }
        }
        Ok(())
    }
}

fn foreign_key() -> Error {
    Error::corrupt("the map has a key that nacre does not write")
        .hint("another program writes to this object: let only nacre write to it")
}
