//! A small seeded generator: the same seed gives the same numbers on every machine and release.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Not for
/// secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A generator seeded by the operating system, for the runtime's jitter and fresh identities.
    #[expect(clippy::disallowed_methods, reason = "this is the one place randomness comes from")]
    pub fn from_system() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self::seeded(RandomState::new().hash_one(std::process::id()))
    }

    /// Any number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high word of a 128-bit product: the bias is below 2^-32 for bounds below 2^32.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A random element of `items`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // The reference values of the xoshiro page's splitmix64.c for seed 1234567.
        let mut random = Random::seeded(1_234_567);
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), expected);
    }

    #[test]
    fn below_stays_below_its_bound_and_reaches_every_value() {
        let mut random = Random::seeded(1);
        let mut seen = [false; 7];
        for _ in 0..200 {
            seen[random.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(random.below(0), 0);
    }
}
