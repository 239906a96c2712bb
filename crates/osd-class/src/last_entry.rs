//! The last omap entry with a prefix. The class API goes through keys forwards only, so the end is
//! looked for by bisection: a log's tail is found in a few dozen looks among any number of entries.

use bytes::Bytes;
use nacre_object::Result;

use crate::OsdObject;
use crate::osd_object::StoredEntry;

/// Entries read at a look: values may be large.
const LOOK_ENTRIES: usize = 4;
/// Bytes of a key that are halved as one number, behind those that are settled.
const WINDOW_BYTES: usize = 7;

/// The last entry with `prefix`, as stored.
pub(crate) fn last_stored(
    prefix: &[u8],
    object: &mut dyn OsdObject,
) -> Result<Option<StoredEntry>> {
    let first = object.range(&[], prefix, LOOK_ENTRIES)?;
    let Some(mut last) = first.entries.last().cloned() else { return Ok(None) };
    let mut more = first.more;
    // Nothing with the prefix lies behind this; `None` if nobody knows yet.
    let mut behind: Option<Vec<u8>> = None;
    while more {
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
    Ok(Some(last))
}

/// A key between `low` and `high` (`None`: the end of the prefix); `None` if they are too close.
fn middle(low: &Bytes, high: Option<&[u8]>, prefix_length: usize) -> Option<Vec<u8>> {
    let settled = match high {
        Some(high) => low.iter().zip(high).take_while(|(low, high)| low == high).count(),
        None => prefix_length.min(low.len()),
    };
    let low_number = window(low, settled);
    let high_number = high.map_or(1 << (8 * WINDOW_BYTES), |high| window(high, settled));
    let number = low_number + high_number.saturating_sub(low_number) / 2;
    let digits = number.to_be_bytes();
    let middle = [&low[..settled], &digits[digits.len() - WINDOW_BYTES..]].concat();
    let is_between = middle[..] > low[..] && high.is_none_or(|high| middle[..] < *high);
    is_between.then_some(middle)
}

/// The bytes of a key behind those that are settled, as a number.
fn window(key: &[u8], settled: usize) -> u64 {
    let byte = |at: usize| u64::from(key.get(settled + at).copied().unwrap_or(0));
    (0..WINDOW_BYTES).fold(0, |number, at| number << 8 | byte(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middle_lies_between() {
        let cases: [(&[u8], Option<&[u8]>); 5] = [
            (b"a", None),
            (b"entry.0000000001", None),
            (b"entry.0000000001", Some(b"entry.9")),
            (b"entry.0000000001", Some(b"entry.0000000001x")),
            (b"ab\xff\xff\xff", Some(b"b")),
        ];
        for (low, high) in cases {
            let middle = middle(&Bytes::from_static(low), high, 0).unwrap();
            assert!(*low < middle[..] && high.is_none_or(|high| middle[..] < *high), "{middle:?}");
        }
        assert_eq!(middle(&Bytes::from_static(b"a"), Some(b"a\0"), 0), None);
    }
}
