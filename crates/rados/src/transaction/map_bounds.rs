//! Bounds of ranges of keys, in byte order.

use nacre_object::limits::MAX_MAP_KEY_BYTES;

/// The least key greater than `key`.
pub fn next_key(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// The least key that is greater than all keys with `prefix`; `None` if there is no such key.
pub fn first_behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// The first key that a range of keys greater than `after` with `prefix` may hold.
pub fn first_of_range(after: &[u8], prefix: &[u8]) -> Vec<u8> {
    if prefix > after || after.is_empty() { prefix.to_vec() } else { next_key(after) }
}

/// Returns a key for a listing with `prefix` that begins at `first`: the keys greater than the
/// returned key are exactly those from `first` on.
pub fn after_of(first: &[u8], prefix: &[u8]) -> Vec<u8> {
    match first.split_last() {
        Some((last, before)) if first > prefix => match last.checked_sub(1) {
            None => before.to_vec(),
            // No possible key lies between this greatest lower key and `first`.
            Some(below) => [before, &[below], &[u8::MAX; MAX_MAP_KEY_BYTES]].concat(),
        },
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_made_from_the_first_key_of_a_range_begins_at_that_key() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"a", b""),
            (b"", b"p"),
            (b"pa", b"p"),
            (b"z", b"p"),
            (b"", b"p\0"),
            (b"p\0", b"p\0"),
        ];
        for (after, prefix) in cases {
            let first = first_of_range(after, prefix);
            let again = first_of_range(&after_of(&first, prefix), prefix);
            assert_eq!(again, first, "after {after:?}, prefix {prefix:?}");
        }
    }

    #[test]
    fn a_bound_before_a_key_excludes_all_lower_keys() {
        let after = after_of(b"b", b"");
        assert!(after.as_slice() < &b"b"[..] && after.as_slice() >= &[b'a', 255, 255][..]);
    }

    #[test]
    fn the_key_after_a_prefix_is_the_first_without_it() {
        assert_eq!(first_behind_prefix(b"a"), Some(b"b".to_vec()));
        assert_eq!(first_behind_prefix(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(first_behind_prefix(b"\xff"), None);
        assert_eq!(first_behind_prefix(b""), None);
    }
}
