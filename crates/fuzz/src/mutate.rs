//! Mutates inputs at random, in ways to which parsers are sensitive.

use nacre_clock::Random;

/// The most bytes of a mutated input: enough to exceed every bound that is cheap to reach.
pub(crate) const MAX_INPUT_BYTES: usize = 16 * 1024;
/// The most changes in one mutation.
const MAX_CHANGES: u64 = 6;
/// Bytes to which parsers are sensitive: bounds of integers, long varints, text.
const TELLING: [&[u8]; 16] = [
    &[0x00],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0x00, 0x00, 0x00, 0x80],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0x80, 0x80, 0x80, 0x80, 0x10],
    b"18446744073709551615",
    b"-1",
    b"1e999",
    "ü\u{0}\u{10ffff}".as_bytes(),
    &[0xc3, 0x28],
];

/// A mutation of an input; `other` is another one of the same target.
pub(crate) fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(MAX_CHANGES) {
        change(&mut bytes, other, random);
    }
    bytes.truncate(MAX_INPUT_BYTES);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() as u64 + 1) as usize;
    let (start, end) = span(bytes.len(), random);
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        2 if at < bytes.len() => {
            bytes[at] = bytes[at].wrapping_add(if random.one_in(2) { 1 } else { 255 });
        }
        3 => drop(bytes.drain(start..end)),
        4 => {
            let again = bytes[start..end].to_vec();
            bytes.splice(at..at, again);
        }
        5 => bytes.truncate(at),
        6 => {
            let (start, end) = span(other.len(), random);
            bytes.splice(at..at, other[start..end].iter().copied());
        }
        7 => {
            let telling = TELLING[random.below(TELLING.len() as u64) as usize];
            let end = if random.one_in(2) { at } else { (at + telling.len()).min(bytes.len()) };
            bytes.splice(at..end, telling.iter().copied());
        }
        _ => bytes.insert(at, random.next_u64() as u8),
    }
}

/// A random range within this many bytes, usually a short one.
fn span(length: usize, random: &mut Random) -> (usize, usize) {
    let start = random.below(length as u64 + 1) as usize;
    let most = if random.one_in(4) { length } else { 16 };
    let end = (start + random.below(most as u64 + 1) as usize).min(length);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutations_are_bounded_vary_and_follow_from_the_seed() {
        let run = |seed| {
            let mut random = Random::seeded(seed);
            let mut input = b"some input of a target".to_vec();
            let mut trace = Vec::new();
            for _ in 0..2000 {
                input = mutate(&input, b"another one", &mut random);
                assert!(input.len() <= MAX_INPUT_BYTES);
                trace.push(input.clone());
            }
            trace
        };
        let trace = run(1);
        assert_eq!(trace, run(1));
        assert_ne!(trace, run(2));
        let different: std::collections::BTreeSet<_> = trace.iter().collect();
        assert!(different.len() > 1000, "{}", different.len());
    }
}
