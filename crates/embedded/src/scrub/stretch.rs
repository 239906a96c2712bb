//! Finds the end of an unreadable range of keys, so that a scrub of the tables can go on after it.
//!
//! A damaged table file loses whole blocks of entries, and a failed reader does not say where the
//! damage ends. A binary search finds the end. It tries keys: a key is readable if a reader that
//! begins there gets an entry or reaches the end.

use std::ops::Bound;

use lsm_tree::Slice;
use nacre_object::Result;

use crate::entry::key::{Key, NodeId, PAST_ALL, after_prefix, node_prefix};
use crate::tables::TableSnapshot;

/// The number of steps of the binary search. This many steps find about the first 60 bytes of the
/// first key that is readable again.
const MAX_HALVINGS: usize = 512;
/// The middle of two keys is computed from this many bytes after their common prefix.
const MIDDLE_BYTES: usize = size_of::<u128>();

/// A range of keys in which nothing can be read, from `from` up to but not including `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub from: Vec<u8>,
    pub to: Vec<u8>,
    pub problem: String,
}

impl Stretch {
    /// Whether some entry of a node is in this stretch and cannot be read.
    pub fn hits(&self, tables: &TableSnapshot, node: NodeId) -> bool {
        let prefix = node_prefix(node);
        let end = after_prefix(&prefix).expect("the tag of nodes has a successor");
        let (from, to) = (self.from.as_slice().max(&prefix), self.to.as_slice().min(&end));
        let range = (Bound::Included(from), Bound::Excluded(to));
        from < to && tables.stored_range(range).any(|entry| entry.is_err())
    }

    /// Whether it may hold keys with this prefix.
    pub fn may_hold(&self, prefix: &[u8]) -> bool {
        let is_before_end = after_prefix(prefix).is_none_or(|end| *self.from < *end);
        is_before_end && self.to.as_slice() > prefix
    }
}

type Stored = Box<dyn Iterator<Item = Result<(Key, Slice)>>>;

/// Entries in order, and the stretches between them that cannot be read.
pub(super) struct Entries<'a> {
    tables: &'a TableSnapshot,
    from: Vec<u8>,
    to: Vec<u8>,
    reading: Option<Stored>,
}

impl<'a> Entries<'a> {
    /// Entries whose keys are at least `from`.
    pub fn from(tables: &'a TableSnapshot, from: &[u8]) -> Self {
        Self { tables, from: from.to_vec(), to: PAST_ALL.to_vec(), reading: None }
    }

    /// Entries whose keys start with `prefix`.
    pub fn with_prefix(tables: &'a TableSnapshot, prefix: &[u8]) -> Self {
        let to = after_prefix(prefix).map_or(PAST_ALL.to_vec(), |end| end.to_vec());
        Self { to, ..Self::from(tables, prefix) }
    }

    fn read_from(&self, from: &[u8]) -> Stored {
        let range = (Bound::Included(from), Bound::Excluded(self.to.as_slice()));
        Box::new(self.tables.stored_range(range))
    }

    /// The first key after the unreadable key `from` at which reading works again.
    fn end_of_stretch(&self, from: &[u8]) -> Vec<u8> {
        let is_readable = |key: &[u8]| !matches!(self.read_from(key).next(), Some(Err(_)));
        end_of_unreadable(from, &self.to, is_readable)
    }
}

/// Returns the first readable key after `from`, which is unreadable. Returns `to` if there is none
/// before it.
pub(crate) fn end_of_unreadable(
    from: &[u8],
    to: &[u8],
    is_readable: impl Fn(&[u8]) -> bool,
) -> Vec<u8> {
    let (mut unreadable, mut readable) = (from.to_vec(), to.to_vec());
    for _ in 0..MAX_HALVINGS {
        let Some(middle) = middle_of(&unreadable, &readable) else { break };
        let border = if is_readable(&middle) { &mut readable } else { &mut unreadable };
        *border = middle;
    }
    readable
}

impl Iterator for Entries<'_> {
    type Item = Result<(Key, Slice), Stretch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.from >= self.to {
            return None;
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read_from(&self.from));
        match reading.next()? {
            Ok((key, stored)) => {
                self.from = successor(&key);
                self.reading = Some(reading);
                Some(Ok((key, stored)))
            }
            Err(error) => {
                let to = self.end_of_stretch(&self.from);
                let from = std::mem::replace(&mut self.from, to.clone());
                Some(Err(Stretch { from, to, problem: error.message().to_owned() }))
            }
        }
    }
}

/// The least key greater than `key`.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

/// Returns a key about halfway between two keys, or `None` if they are too close.
fn middle_of(low: &[u8], high: &[u8]) -> Option<Vec<u8>> {
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; MIDDLE_BYTES];
        let behind = &key[shared..key.len().min(shared + MIDDLE_BYTES)];
        bytes[..behind.len()].copy_from_slice(behind);
        u128::from_be_bytes(bytes)
    };
    let (low_number, high_number) = (number(low), number(high));
    let half = high_number.checked_sub(low_number)? / 2;
    if half == 0 {
        return None;
    }
    let mut middle = low[..shared].to_vec();
    middle.extend_from_slice(&(low_number + half).to_be_bytes());
    Some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_search_finds_the_border_from_both_sides() {
        let border = b"n\0\0\0\0\0\0\0\x07mrecord/00000042".as_slice();
        let (mut low, mut high) = (b"g".to_vec(), PAST_ALL.to_vec());
        let mut halvings = 0;
        while let Some(middle) = middle_of(&low, &high) {
            assert!(low < middle && middle < high);
            let is_past = middle.as_slice() > border;
            *(if is_past { &mut high } else { &mut low }) = middle;
            halvings += 1;
        }
        assert!(halvings <= MAX_HALVINGS, "{halvings}");
        assert!(high.starts_with(border) && high.as_slice() > border);
    }
}
