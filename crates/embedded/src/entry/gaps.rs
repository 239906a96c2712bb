//! Ranges of keys that a shard knows to be empty, so that its scans can skip them.
//!
//! A deleted key stays in the tables as a tombstone until table files are merged, and every scan of
//! its range reads the tombstone. Without gaps, each take from the front of a queue would read the
//! tombstones of all entries taken before. So when a scan finds its first entry, the shard
//! remembers the empty range before that entry as a *gap*. The next scan that begins in the gap
//! continues at the gap's end.
//!
//! **Invariants:**
//! - A gap lies within one node (one stream, map or set of attributes) of its shard. Only that
//!   shard changes the node.
//! - In a gap there is no entry, neither in the tables nor in the shard's recent changes.
//! - Gaps neither overlap nor touch.
//! - The shard notes every change before its next transaction. A put splits the gap it falls in; a
//!   deletion joins its neighbouring gaps.
//! - Dropping a gap costs time only.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::entry::key::{Key, is_of_shard_node};
use crate::transaction::change_set::Overlay;

/// The number of gaps that a shard remembers, far above the number of its busy queues. Once there
/// are so many, a scan's new gap replaces all others. If a put then splits a gap, only the part
/// before the new entry is kept: a queue that takes from its front needs that part.
const MAX_GAPS: usize = 1024;
/// The longest key that may begin or end a gap. Together with [`MAX_GAPS`] it bounds the memory of
/// gaps.
const MAX_KEY_BYTES: usize = 512;

/// The gaps of a shard.
#[derive(Debug)]
pub(crate) struct Gaps {
    shard: u16,
    /// Maps the first key of each gap to the first key after it.
    ends: BTreeMap<Key, Key>,
}

/// A range of keys: the first key, and the first key after the range.
pub(crate) type Span = (Key, Key);

impl Gaps {
    pub fn new(shard: u16) -> Self {
        Self { shard, ends: BTreeMap::new() }
    }

    /// The span without the gap it begins in; `None` if nothing is left.
    pub fn cut_front(&self, (start, end): &Span) -> Option<Span> {
        let start = match self.at_or_before(start) {
            Some((_, gap_end)) if gap_end > start => gap_end,
            _ => start,
        };
        (start < end).then(|| (start.clone(), end.clone()))
    }

    /// The span without the gap it ends in; `None` if nothing is left.
    pub fn cut_back(&self, (start, end): &Span) -> Option<Span> {
        let mut before = self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(&**end)));
        let end = match before.next_back() {
            Some((gap_start, gap_end)) if gap_end >= end => gap_start,
            _ => end,
        };
        (start < end).then(|| (start.clone(), end.clone()))
    }

    fn at_or_before(&self, key: &[u8]) -> Option<(&Key, &Key)> {
        self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    /// Remembers that a span of keys is empty, if only this shard changes keys there.
    pub fn add(&mut self, (start, end): Span) {
        let is_short = start.len() <= MAX_KEY_BYTES && end.len() <= MAX_KEY_BYTES;
        if start >= end || !is_short || !is_of_shard_node(self.shard, &start, &end) {
            return;
        }
        if self.ends.len() >= MAX_GAPS {
            self.ends.clear();
        }
        self.join(start, end);
    }

    /// Adds a gap, and joins it with all gaps that it overlaps or touches.
    fn join(&mut self, mut start: Key, mut end: Key) {
        if let Some((before, before_end)) = self.at_or_before(&start)
            && *before_end >= start
        {
            end = end.max(before_end.clone());
            start = before.clone();
        }
        let span = (Bound::Included(&*start), Bound::Included(&*end));
        let within: Vec<Key> =
            self.ends.range::<[u8], _>(span).map(|(key, _)| key.clone()).collect();
        for key in within {
            end = end.max(self.ends.remove(&key).expect("it was just found"));
        }
        self.ends.insert(start, end);
    }

    /// Updates the gaps with the changes of a transaction.
    pub fn note(&mut self, changes: &Overlay) {
        if self.ends.is_empty() {
            return;
        }
        for (key, value) in changes {
            match value {
                Some(_) => self.note_put(key),
                None => self.note_deletion(key),
            }
        }
    }

    fn note_put(&mut self, key: &Key) {
        let Some((start, end)) = self.at_or_before(key) else { return };
        if end <= key {
            return;
        }
        let (start, end, behind) = (start.clone(), end.clone(), after(key));
        self.ends.remove(&start);
        if start < *key {
            self.ends.insert(start, key.clone());
        }
        if behind < end && self.ends.len() < MAX_GAPS {
            self.ends.insert(behind, end);
        }
    }

    fn note_deletion(&mut self, key: &Key) {
        let behind = after(key);
        let touches = self.at_or_before(key).is_some_and(|(_, end)| end == key)
            || self.ends.contains_key(&behind);
        if touches {
            self.join(key.clone(), behind);
        }
    }
}

/// The first key behind this one.
pub(crate) fn after(key: &[u8]) -> Key {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// The span of a range with both ends.
pub(crate) fn span_of(range: (Bound<&[u8]>, Bound<&[u8]>)) -> Option<Span> {
    let start = match range.0 {
        Bound::Included(key) => Key::from(key),
        Bound::Excluded(key) => after(key),
        Bound::Unbounded => return None,
    };
    let end = match range.1 {
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => Key::from(key),
        Bound::Unbounded => return None,
    };
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use nacre_clock::Random;

    use super::*;
    use crate::entry::key::{self, NodeId};
    use crate::entry::value::Value;

    const SHARD: u16 = 3;
    const KEYS: u64 = 24;

    fn key_of(n: u64) -> Key {
        key::map_entry(NodeId::new(SHARD, 1), &[n as u8 + 1])
    }

    fn change(n: u64, is_put: bool) -> Overlay {
        Overlay::from([(key_of(n), is_put.then(|| Value::Inline(Bytes::new())))])
    }

    /// Returns what a scan finds, and reports the empty range before it as a gap.
    fn first_of(live: &BTreeSet<u64>, gaps: &mut Gaps, (from, to): (u64, u64)) -> Option<u64> {
        let span = gaps.cut_front(&(key_of(from), key_of(to)))?;
        let found = live.iter().copied().find(|n| key_of(*n) >= span.0 && key_of(*n) < span.1);
        gaps.add((span.0, found.map_or(span.1, key_of)));
        found
    }

    fn last_of(live: &BTreeSet<u64>, gaps: &mut Gaps, (from, to): (u64, u64)) -> Option<u64> {
        let span = gaps.cut_back(&(key_of(from), key_of(to)))?;
        let found = live.iter().rev().copied();
        let found = found.into_iter().find(|n| key_of(*n) >= span.0 && key_of(*n) < span.1);
        gaps.add((found.map_or(span.0, |n| after(&key_of(n))), span.1));
        found
    }

    #[test]
    fn scans_that_skip_gaps_find_what_scans_without_them_find() {
        for seed in 0..500 {
            let mut random = Random::seeded(seed);
            let (mut live, mut gaps) = (BTreeSet::new(), Gaps::new(SHARD));
            for _ in 0..200 {
                let (a, b) = (random.below(KEYS), random.below(KEYS));
                let (from, to) = (a.min(b), a.max(b));
                let within = live.range(from..to).copied().collect::<Vec<u64>>();
                match random.below(4) {
                    0 => {
                        live.insert(a);
                        gaps.note(&change(a, true));
                    }
                    1 => {
                        live.remove(&a);
                        gaps.note(&change(a, false));
                    }
                    2 => {
                        let found = first_of(&live, &mut gaps, (from, to));
                        assert_eq!(found, within.first().copied(), "seed {seed}");
                    }
                    _ => {
                        let found = last_of(&live, &mut gaps, (from, to));
                        assert_eq!(found, within.last().copied(), "seed {seed}");
                    }
                }
                for ((_, end), (start, _)) in gaps.ends.iter().zip(gaps.ends.iter().skip(1)) {
                    assert!(end < start, "seed {seed}: gaps overlap or touch");
                }
            }
        }
    }

    #[test]
    fn a_queue_that_takes_from_either_end_never_scans_taken_entries() {
        let mut live: BTreeSet<u64> = (0..KEYS).collect();
        let mut gaps = Gaps::new(SHARD);
        for taken in 0..KEYS / 2 {
            assert_eq!(first_of(&live, &mut gaps, (0, KEYS)), Some(taken));
            assert_eq!(last_of(&live, &mut gaps, (0, KEYS)), Some(KEYS - 1 - taken));
            for n in [taken, KEYS - 1 - taken] {
                live.remove(&n);
                gaps.note(&change(n, false));
            }
            let all = (key_of(0), key_of(KEYS));
            let (front, back) = (gaps.cut_front(&all).unwrap(), gaps.cut_back(&all).unwrap());
            assert!(front.0 >= key_of(taken), "only the one just taken is passed");
            assert_eq!(back.1, key_of(KEYS - 1 - taken), "none is");
        }
        assert_eq!(first_of(&live, &mut gaps, (0, KEYS)), None);
        assert_eq!(gaps.ends.len(), 1);
        assert_eq!(gaps.cut_front(&(key_of(0), key_of(KEYS))), None);
    }

    #[test]
    fn filling_a_gap_splits_it_a_bounded_number_of_times() {
        let mut gaps = Gaps::new(SHARD);
        let key = |n: u32| key::map_entry(NodeId::new(SHARD, 1), &n.to_be_bytes());
        gaps.add((key(0), key(u32::MAX)));
        for n in 1..3 * MAX_GAPS as u32 {
            gaps.note(&Overlay::from([(key(2 * n), Some(Value::Inline(Bytes::new())))]));
        }
        assert_eq!(gaps.ends.len(), MAX_GAPS);
        assert_eq!(
            gaps.cut_front(&(key(0), key(9))).unwrap().0,
            key(2),
            "the first is still known"
        );
    }

    #[test]
    fn no_gap_is_kept_for_other_shards_nodes_or_long_keys() {
        let mut gaps = Gaps::new(SHARD);
        let other = NodeId::new(SHARD + 1, 1);
        gaps.add((key::map_entry(other, b"a"), key::map_entry(other, b"b")));
        let own = NodeId::new(SHARD, 1);
        gaps.add((key::map_entry(own, b"a"), key::map_entry(NodeId::new(SHARD, 2), b"b")));
        gaps.add((key::map_entry(own, &[1; MAX_KEY_BYTES]), key::map_entry(own, &[2])));
        assert!(gaps.ends.is_empty());
    }
}
