//! Finds the last omap entry with a prefix.
//!
//! The class API reads keys in ascending order only. So the last key is found by bisection: each
//! *look* checks whether there is a key after a guessed key. The number of looks depends on the
//! length of the keys, not on their number. For the last entry of a log, some dozen looks suffice,
//! however many entries there are.

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::OsdObject;
use crate::osd_object::StoredEntry;

/// How many entries one look reads. They are few, because values may be large.
const LOOK_ENTRIES: usize = 4;
/// How many bytes of a key, after those already found, the bisection treats as one number.
const WINDOW_BYTES: usize = 7;
/// One more than the greatest number of that many bytes.
const WINDOW_END: u64 = 1 << (8 * WINDOW_BYTES);
/// The most looks of one search. The limit is needed because a search cannot be interrupted and
/// delays other objects. Each look halves the range of possible keys, so this number suffices for
/// keys that share their first thousand bytes.
const MAX_LOOKS: usize = 10_000;

/// The last entry with `prefix`, as stored.
pub(crate) fn last_stored(
    prefix: &[u8],
    object: &mut dyn OsdObject,
) -> Result<Option<StoredEntry>> {
    let first = object.range(&[], prefix, LOOK_ENTRIES)?;
    let Some(mut last) = first.entries.last().cloned() else { return Ok(None) };
    let mut more = first.more;
    // No key with the prefix lies after this key; `None` if no such key is known yet.
    let mut behind: Option<Vec<u8>> = None;
    for _ in 0..MAX_LOOKS {
        if !more {
            return Ok(Some(last));
        }
        let middle = middle(&last.0, behind.as_deref(), prefix.len());
        let after = middle.as_deref().unwrap_or(&last.0);
        let look = object.range(after, prefix, LOOK_ENTRIES)?;
        match (look.entries.last().cloned(), middle) {
            (Some(found), _) => {
                last = found;
                more = look.more;
            }
            (None, Some(middle)) => behind = Some(middle),
            (None, None) => more = false,
        }
    }
    Err(Error::exhausted(format!("the last key was not found in {MAX_LOOKS} steps"))
        .hint("give a longer prefix"))
}

/// A key in the middle between `low` and `high`. A `high` of `None` stands for the end of the keys
/// with the prefix. Returns `None` if at most a few keys lie between them.
fn middle(low: &Bytes, high: Option<&[u8]>, prefix_length: usize) -> Option<Vec<u8>> {
    let settled = match high {
        Some(high) => low.iter().zip(high).take_while(|(low, high)| low == high).count(),
        None => prefix_length.min(low.len()),
    };
    let mut high_number = high.map_or(WINDOW_END, |high| window(high, settled));
    for settled in (settled..=low.len()).step_by(WINDOW_BYTES) {
        let low_number = window(low, settled);
        let number = low_number + high_number.saturating_sub(low_number) / 2;
        let digits = number.to_be_bytes();
        let middle = [&low[..settled], &digits[digits.len() - WINDOW_BYTES..]].concat();
        if middle[..] > low[..] && high.is_none_or(|high| middle[..] < *high) {
            return Some(middle);
        }
        // No number lies between the two. So every key between `low` and `high` begins with these
        // bytes of `low`. The next round halves by the bytes after them.
        high_number = WINDOW_END;
    }
    None
}

/// The bytes of a key after the settled ones, as a number.
fn window(key: &[u8], settled: usize) -> u64 {
    let byte = |at: usize| u64::from(key.get(settled + at).copied().unwrap_or(0));
    (0..WINDOW_BYTES).fold(0, |number, at| number << 8 | byte(at))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use nacre_clock::Random;
    use nacre_object::ErrorKind;

    use super::*;
    use crate::Change;
    use crate::osd_object::{OsdStat, StoredRange};

    /// The map of an object, and the number of looks at it.
    #[derive(Default)]
    struct Omap {
        entries: BTreeMap<Bytes, Bytes>,
        looks: usize,
    }

    impl Omap {
        fn of(keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
            let entries = keys.into_iter().map(|key| (key.into(), Bytes::new())).collect();
            Self { entries, looks: 0 }
        }

        /// The last key with a prefix, as the search finds it.
        fn last(&mut self, prefix: &[u8]) -> Option<Bytes> {
            last_stored(prefix, self).unwrap().map(|(key, _)| key)
        }
    }

    impl OsdObject for Omap {
        fn stat(&mut self) -> Result<Option<OsdStat>> {
            unreachable!("only the map is looked at")
        }

        fn version(&mut self) -> Result<u64> {
            unreachable!("only the map is looked at")
        }

        fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
            unreachable!("only the map is looked at")
        }

        fn attributes(&mut self) -> Result<Vec<StoredEntry>> {
            unreachable!("only the map is looked at")
        }

        fn entry(&mut self, _: &[u8]) -> Result<Option<Bytes>> {
            unreachable!("only ranges of it")
        }

        fn range(&mut self, after: &[u8], prefix: &[u8], limit: usize) -> Result<StoredRange> {
            self.looks += 1;
            let first =
                if prefix > after { Bound::Included(prefix) } else { Bound::Excluded(after) };
            let behind = self.entries.range::<[u8], _>((first, Bound::Unbounded));
            let mut found = behind.take_while(|(key, _)| key.starts_with(prefix));
            let entries = found.by_ref().take(limit);
            let entries = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
            Ok(StoredRange { entries, more: found.next().is_some() })
        }

        fn apply(&mut self, _: Change) -> Result<()> {
            unreachable!("nothing is changed")
        }
    }

    #[test]
    fn the_last_of_any_number_of_keys_is_found_in_few_steps() {
        for begin in [&b""[..], b"\xff", &[0xff; 7], &[0xff; 100], b"z\xff\xff\xff\xff\xff\xff\xff"]
        {
            let key = |number: u32| [b"entry.", begin, &number.to_be_bytes()[..]].concat();
            let mut omap = Omap::of((0..=100_000).map(key));
            assert_eq!(omap.last(b"entry."), Some(key(100_000).into()));
            assert!(omap.looks < 300, "{} looks, begin {begin:?}", omap.looks);
        }
    }

    #[test]
    fn the_last_of_random_keys_is_found() {
        const ALPHABET: [u8; 6] = [0x02, b'a', b'b', 0x7f, 0xfe, 0xff];
        for seed in 0..200 {
            let mut random = Random::seeded(seed);
            let mut key = || -> Vec<u8> {
                let length = 1 + random.below(20);
                (0..length).map(|_| ALPHABET[random.below(6) as usize]).collect()
            };
            let mut omap = Omap::of((0..200).map(|_| key()));
            for prefix in [&b""[..], b"a", b"\xff", b"\xff\xff", b"b\x7f"] {
                let with_prefix = omap.entries.keys().filter(|key| key.starts_with(prefix));
                let expected = with_prefix.last().cloned();
                assert_eq!(omap.last(prefix), expected, "seed {seed}, prefix {prefix:?}");
            }
        }
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        let key = |number: u32| [&[b'k'; 4000][..], &number.to_be_bytes()].concat();
        let mut omap = Omap::of((0..1000).map(key));
        let error = last_stored(b"", &mut omap).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(omap.looks <= MAX_LOOKS + 1);
        assert_eq!(omap.last(&[b'k'; 4000]), Some(key(999).into()));
    }

    #[test]
    fn a_middle_key_lies_between_its_bounds() {
        let cases: [(&[u8], Option<&[u8]>); 6] = [
            (b"a", None),
            (b"entry.0000000001", None),
            (b"entry.0000000001", Some(b"entry.9")),
            (b"entry.0000000001", Some(b"entry.0000000001x")),
            (b"ab\xff\xff\xff", Some(b"b")),
            (b"a\xff\xff\xff\xff\xff\xff\xff\xff", Some(b"b")),
        ];
        for (low, high) in cases {
            let middle = middle(&Bytes::from_static(low), high, 0).unwrap();
            assert!(*low < middle[..] && high.is_none_or(|high| middle[..] < *high), "{middle:?}");
        }
        assert_eq!(middle(&Bytes::from_static(b"a"), Some(b"a\0"), 0), None);
    }
}
