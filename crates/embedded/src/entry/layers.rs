//! What a transaction reads: its own changes first, then its shard's recent changes, then the
//! tables.
//!
//! A shard skips key ranges that it knows to be empty ([`crate::entry::gaps`]), and looks for
//! single entries in its cache first ([`crate::entry::entry_cache`]). Read-only requests use
//! neither; the tables have a row cache for them.
//!
//! **Invariant:** a reply never reveals unsynced changes. The shard's recent changes may be
//! unsynced. So [`Layers::saw_unsynced`] says whether a transaction read any of them; if it did,
//! its reply waits for the sync.

use std::cell::{Cell, RefCell};
use std::collections::btree_map;
use std::iter::Peekable;
use std::ops::Bound;

use nacre_object::Result;

use crate::entry::entry_cache::EntryCache;
use crate::entry::gaps::{Gaps, Span, after, span_of};
use crate::entry::key::{Key, after_prefix};
use crate::entry::value::Value;
use crate::tables::TableSnapshot;
use crate::transaction::change_set::Overlay;
use crate::transaction::recent_changes::RecentChanges;

/// Which end a scan starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// A transaction's own changes, over its shard's recent changes, over the tables.
pub(crate) struct Layers<'a> {
    tables: &'a TableSnapshot,
    /// The changes of the shard's transactions that are possibly not in the tables yet, newer
    /// changes first.
    recent: [Option<&'a Overlay>; 2],
    /// Key ranges without an entry in the tables or the recent changes, as far as the shard knows.
    gaps: Option<&'a RefCell<Gaps>>,
    /// The shard's cache of entries of the tables and recent changes.
    cache: Option<&'a RefCell<EntryCache>>,
    /// The changes of this transaction.
    pub own: Overlay,
    saw_unsynced: Cell<bool>,
}

impl<'a> Layers<'a> {
    /// The tables alone, for read-only requests.
    pub fn of_tables(tables: &'a TableSnapshot) -> Self {
        Self {
            tables,
            recent: Default::default(),
            gaps: None,
            cache: None,
            own: Overlay::new(),
            saw_unsynced: Cell::new(false),
        }
    }

    /// The tables, the recent changes and the caches of a shard.
    pub fn of_shard(
        tables: &'a TableSnapshot,
        recent: &'a RecentChanges,
        gaps: &'a RefCell<Gaps>,
        cache: &'a RefCell<EntryCache>,
    ) -> Self {
        let (gaps, cache) = (Some(gaps), Some(cache));
        Self { recent: recent.overlays(), gaps, cache, ..Self::of_tables(tables) }
    }

    pub fn saw_unsynced(&self) -> bool {
        self.saw_unsynced.get()
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(value) = self.own.get(key) {
            return Ok(value.clone());
        }
        if let Some(value) = self.recent.iter().flatten().find_map(|recent| recent.get(key)) {
            self.saw_unsynced.set(true);
            return Ok(value.clone());
        }
        let Some(cache) = self.cache else { return self.tables.get_row(key) };
        if let Some(value) = cache.borrow_mut().get(key) {
            return Ok(value);
        }
        let value = self.tables.get(key)?;
        // Missing keys are not cached, because a transaction that misses a key mostly puts it.
        if let Some(value) = &value {
            cache.borrow_mut().remember(key, value);
        }
        Ok(value)
    }

    pub fn put(&mut self, key: impl Into<Key>, value: Value) {
        self.own.insert(key.into(), Some(value));
    }

    pub fn delete(&mut self, key: impl Into<Key>) {
        self.own.insert(key.into(), None);
    }

    /// Entries whose keys start with `prefix`.
    pub fn scan_prefix(&self, prefix: &[u8], direction: Direction) -> Scan<'_> {
        let end = after_prefix(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.scan((Bound::Included(prefix), end), direction)
    }

    /// Entries whose keys are in a range.
    pub fn scan(&self, range: (Bound<&[u8]>, Bound<&[u8]>), direction: Direction) -> Scan<'_> {
        let own = OverlayEntries::of(&self.own, range, direction);
        let mut scan = Scan::of(own, direction, &self.saw_unsynced);
        match self.gaps.and_then(|gaps| Some((gaps, span_of(range)?))) {
            None => self.look_below(&mut scan, range),
            Some((gaps, span)) => self.look_outside(gaps, &mut scan, span),
        }
        scan
    }

    /// Adds the recent changes and the tables to a scan.
    fn look_below<'s>(&'s self, scan: &mut Scan<'s>, range: (Bound<&[u8]>, Bound<&[u8]>)) {
        let tables = self.tables.range(range);
        let tables: TableEntries<'_> = match scan.direction {
            Direction::Forward => Box::new(tables),
            Direction::Backward => Box::new(tables.rev()),
        };
        scan.tables = tables.peekable();
        scan.recent = self
            .recent
            .map(|recent| recent.map(|recent| OverlayEntries::of(recent, range, scan.direction)));
    }

    /// As [`Self::look_below`], but skips a gap at the begin or end of the span.
    fn look_outside<'s>(&'s self, gaps: &'s RefCell<Gaps>, scan: &mut Scan<'s>, span: Span) {
        let left = match scan.direction {
            Direction::Forward => gaps.borrow().cut_front(&span),
            Direction::Backward => gaps.borrow().cut_back(&span),
        };
        // Possibly a deletion that is not synced yet made part of the gap.
        if left.as_ref() != Some(&span) && self.recent.iter().any(Option::is_some) {
            self.saw_unsynced.set(true);
        }
        let Some((start, end)) = left else { return };
        self.look_below(scan, (Bound::Included(&*start), Bound::Excluded(&*end)));
        // A gap must be empty without this transaction's changes too, because the transaction may
        // still fail.
        if scan.own.peek().is_none() {
            scan.unexplored = Some((gaps, (start, end)));
        }
    }
}

type TableEntries<'a> = Box<dyn Iterator<Item = Result<(Key, Value)>> + 'a>;

struct OverlayEntries<'a> {
    range: btree_map::Range<'a, Key, Option<Value>>,
    direction: Direction,
}

impl<'a> OverlayEntries<'a> {
    fn of(
        overlay: &'a Overlay,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Peekable<Self> {
        Self { range: overlay.range::<[u8], _>(range), direction }.peekable()
    }
}

impl<'a> Iterator for OverlayEntries<'a> {
    type Item = (&'a Key, &'a Option<Value>);

    fn next(&mut self) -> Option<Self::Item> {
        match self.direction {
            Direction::Forward => self.range.next(),
            Direction::Backward => self.range.next_back(),
        }
    }
}

/// The entries of a range, each as the uppermost layer has it.
pub(crate) struct Scan<'a> {
    tables: Peekable<TableEntries<'a>>,
    recent: [Option<Peekable<OverlayEntries<'a>>>; 2],
    own: Peekable<OverlayEntries<'a>>,
    direction: Direction,
    saw_unsynced: &'a Cell<bool>,
    /// The shard's table of gaps, and the key range of this scan. The range before the first entry
    /// that the scan finds is added to the table as a gap; then this becomes `None`.
    unexplored: Option<(&'a RefCell<Gaps>, Span)>,
}

impl<'a> Scan<'a> {
    /// A scan of a transaction's own changes alone.
    fn of(
        own: Peekable<OverlayEntries<'a>>,
        direction: Direction,
        saw_unsynced: &'a Cell<bool>,
    ) -> Self {
        let tables: TableEntries<'_> = Box::new(std::iter::empty());
        Self {
            tables: tables.peekable(),
            recent: [None, None],
            own,
            direction,
            saw_unsynced,
            unexplored: None,
        }
    }

    /// Notes the first entry that the scan found, or that it found none.
    fn explored(&mut self, found: Option<&Key>) {
        let Some((gaps, (start, end))) = self.unexplored.take() else { return };
        let gap = match (self.direction, found) {
            (_, None) => (start, end),
            (Direction::Forward, Some(key)) => (start, key.clone()),
            (Direction::Backward, Some(key)) => (after(key), end),
        };
        gaps.borrow_mut().add(gap);
    }

    /// The next key of any layer; an error of the tables comes first.
    fn next_key(&mut self) -> Option<Result<Key>> {
        let tables = match self.tables.peek() {
            Some(Ok((key, _))) => Some(key.clone()),
            Some(Err(error)) => return Some(Err(error.clone())),
            None => None,
        };
        let recent = self.recent.iter_mut().flatten();
        let overlays = std::iter::once(&mut self.own).chain(recent);
        let keys = overlays.filter_map(|overlay| overlay.peek().map(|(key, _)| (*key).clone()));
        let keys = keys.chain(tables);
        match self.direction {
            Direction::Forward => keys.min().map(Ok),
            Direction::Backward => keys.max().map(Ok),
        }
    }

    /// Takes the entries under `key` from every layer. The value of the uppermost layer counts.
    fn take(&mut self, key: &Key) -> Option<Value> {
        let tables = self
            .tables
            .next_if(|entry| entry.as_ref().is_ok_and(|(found, _)| found == key))
            .and_then(|entry| entry.ok());
        let recent = self.recent.each_mut().map(|recent| {
            recent.as_mut().and_then(|recent| recent.next_if(|(found, _)| *found == key))
        });
        let own = self.own.next_if(|(found, _)| *found == key);
        let [newer, older] = recent;
        let recent = newer.or(older);
        if recent.is_some() {
            self.saw_unsynced.set(true);
        }
        match own.or(recent) {
            Some((_, value)) => value.clone(),
            None => tables.map(|(_, value)| value),
        }
    }

    /// The next entry, as the uppermost layer has it.
    fn merged(&mut self) -> Option<Result<(Key, Value)>> {
        // Without overlays, as in most reads, there is nothing to merge.
        if self.recent.iter().all(Option::is_none) && self.own.peek().is_none() {
            return self.tables.next();
        }
        loop {
            let key = match self.next_key()? {
                Ok(key) => key,
                Err(error) => {
                    self.tables.next();
                    return Some(Err(error));
                }
            };
            if let Some(value) = self.take(&key) {
                return Some(Ok((key, value)));
            }
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Key, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.merged();
        if self.unexplored.is_some() {
            match &next {
                Some(Err(_)) => self.unexplored = None,
                Some(Ok((key, _))) => self.explored(Some(key)),
                None => self.explored(None),
            }
        }
        next
    }
}
