//! Encodes keys of an object's map as omap keys.
//!
//! librados' C interface passes the bounds of a range as C strings, which end at a zero byte. So
//! the encoding replaces the byte 0 by `1 1` and the byte 1 by `1 2`.
//!
//! **Invariant:** the encoding keeps the order of keys. If one key begins with another, so do their
//! encodings. The codes of single bytes are ordered as the bytes are, and no code is the beginning
//! of another.

/// The byte that begins the code of an escaped byte.
const ESCAPE: u8 = 1;
/// The byte after [`ESCAPE`] is the escaped byte plus this.
const SHIFT: u8 = 1;
/// The omap key of the map's header. No escaped key begins like it.
pub const HEADER_KEY: &[u8] = b"\x01\x03header";

/// The meaning of an omap key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredKey {
    /// A key of the map.
    Entry(Vec<u8>),
    /// The map's header.
    Header,
    /// Not ours: no escaped key looks so.
    Foreign,
}

/// Encodes a key or a prefix of keys of the map as an omap key or a prefix of omap keys.
pub fn escape_key(key: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(key.len());
    for byte in key {
        match byte {
            0 | 1 => escaped.extend([ESCAPE, byte + SHIFT]),
            _ => escaped.push(*byte),
        }
    }
    escaped
}

/// Decodes an omap key.
pub fn unescape_key(stored: &[u8]) -> StoredKey {
    if stored == HEADER_KEY {
        return StoredKey::Header;
    }
    let mut key = Vec::with_capacity(stored.len());
    let mut bytes = stored.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, if byte == ESCAPE { bytes.next() } else { None }) {
            (ESCAPE, Some(code @ 1..=2)) => key.push(code - SHIFT),
            (0 | ESCAPE, _) => return StoredKey::Foreign,
            (byte, _) => key.push(byte),
        }
    }
    StoredKey::Entry(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys of up to three of the bytes that matter here, in order.
    fn keys() -> Vec<Vec<u8>> {
        let bytes = [0, 1, 2, 3, b'a', 255];
        let mut keys = vec![vec![]];
        for length in 0..3 {
            for key in keys.clone().iter().filter(|key| key.len() == length) {
                keys.extend(bytes.map(|byte| [key.as_slice(), &[byte]].concat()));
            }
        }
        keys.sort();
        keys
    }

    #[test]
    fn an_escaped_key_has_no_zero_byte_and_can_be_unescaped() {
        for key in keys() {
            let escaped = escape_key(&key);
            assert!(!escaped.contains(&0), "{key:?}");
            assert_eq!(unescape_key(&escaped), StoredKey::Entry(key));
        }
    }

    #[test]
    fn escaping_keeps_the_order_and_the_prefixes_of_keys() {
        let keys = keys();
        assert!(keys.iter().map(|key| escape_key(key)).is_sorted());
        for key in &keys {
            for prefix in &keys {
                let escaped = escape_key(key).starts_with(&escape_key(prefix));
                assert_eq!(escaped, key.starts_with(prefix), "{key:?} {prefix:?}");
            }
        }
    }

    #[test]
    fn the_header_key_sorts_between_escaped_and_plain_keys() {
        assert!(escape_key(&[1, 255, 255]).as_slice() < HEADER_KEY);
        assert!(HEADER_KEY < escape_key(&[2]).as_slice());
        assert_eq!(unescape_key(HEADER_KEY), StoredKey::Header);
    }

    #[test]
    fn an_omap_key_that_no_key_escapes_to_is_foreign() {
        for stored in [&b"\0"[..], b"a\0", b"\x01", b"a\x01\x03", b"\x01\x01\x01"] {
            assert_eq!(unescape_key(stored), StoredKey::Foreign, "{stored:?}");
        }
    }
}
