//! A hash that stays the same for ever: of what is stored by it.

/// FNV-1a, in 64 bits. Another one would no longer find what was stored.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
