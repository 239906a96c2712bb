//! A hash function that never changes, because stored data depends on it.

/// FNV-1a, in 64 bits. With another hash, stored data would no longer be found.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
