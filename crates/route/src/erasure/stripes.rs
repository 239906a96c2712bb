//! `Stripes`: which bytes of an object are in which fragment.
//!
//! The object's bytes are divided into stripes, and each stripe into `needed` units of equal length.
//! The fragments with numbers below `needed` have these units, one of each stripe. The other fragments
//! have units that are computed from them. Any `needed` units of a stripe suffice to compute the
//! others. The units of the last stripe are shorter, and zeros fill the rest of them.

use std::ops::Range;

use crate::limits::{ERASURE_UNIT_BYTES, STRIPES_OF_A_WRITE};
use crate::model::Span;

/// How the bytes of one object are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripes {
    needed: u64,
    size: u64,
}

/// Bytes of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentSpan {
    /// The number of the fragment.
    pub fragment: usize,
    /// Its first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl Stripes {
    /// The stripes of an object of `size` bytes, with `needed` units of its bytes each.
    ///
    /// # Panics
    /// If `needed` is 0.
    pub fn new(needed: usize, size: u64) -> Self {
        assert!(needed > 0, "a stripe has units");
        Self { needed: needed as u64, size }
    }

    fn stripe_bytes(self) -> u64 {
        self.needed * ERASURE_UNIT_BYTES
    }

    /// How many stripes there are.
    pub fn count(self) -> u64 {
        self.size.div_ceil(self.stripe_bytes())
    }

    /// The bytes of the object that some stripes have; `None` if they have none.
    pub fn span(self, stripes: Range<u64>) -> Option<Span> {
        let start = stripes.start.saturating_mul(self.stripe_bytes());
        Span::new(start, stripes.end.saturating_mul(self.stripe_bytes()).min(self.size))
    }

    /// The bytes of each unit of a stripe: an even number, because the code works on pairs of bytes.
    pub fn unit_bytes(self, stripe: u64) -> u64 {
        let span = self.span(stripe..stripe + 1);
        let bytes = span.map_or(0, Span::length);
        bytes.div_ceil(self.needed).next_multiple_of(2)
    }

    /// Where the units of some stripes are in each fragment.
    pub fn units(self, stripes: Range<u64>) -> Range<u64> {
        let start = stripes.start * ERASURE_UNIT_BYTES;
        match stripes.end.checked_sub(1).filter(|last| *last >= stripes.start) {
            None => start..start,
            Some(last) => start..last * ERASURE_UNIT_BYTES + self.unit_bytes(last),
        }
    }

    /// The bytes of a whole fragment.
    pub fn fragment_bytes(self) -> u64 {
        self.units(0..self.count()).end
    }

    /// The stripes that have bytes of a span.
    pub fn of(self, span: Span) -> Range<u64> {
        match Span::new(span.start(), span.end().min(self.size)) {
            None => 0..0,
            Some(span) => {
                span.start() / self.stripe_bytes()..span.end().div_ceil(self.stripe_bytes())
            }
        }
    }

    /// The writes by which a fragment is made: the stripes of each.
    pub fn writes(self) -> impl Iterator<Item = Range<u64>> {
        let count = self.count();
        let starts = (0..count).step_by(STRIPES_OF_A_WRITE as usize);
        starts.map(move |start| start..count.min(start + STRIPES_OF_A_WRITE))
    }

    /// Where the bytes of a span are, in their order. Bytes past the end of the object are nowhere.
    pub fn places(self, span: Span) -> Vec<FragmentSpan> {
        let mut places = vec![];
        for stripe in self.of(span) {
            let Some(whole) = self.span(stripe..stripe + 1) else { continue };
            let unit = self.unit_bytes(stripe);
            for fragment in 0..self.needed {
                let first = whole.start() + fragment * unit;
                let meant = Span::new(first, first + unit).and_then(|of_unit| {
                    of_unit.intersect(span).and_then(|meant| meant.intersect(whole))
                });
                let Some(meant) = meant else { continue };
                let base = stripe * ERASURE_UNIT_BYTES;
                places.push(FragmentSpan {
                    fragment: fragment as usize,
                    start: base + meant.start() - first,
                    end: base + meant.end() - first,
                });
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::Random;

    use super::*;

    /// The byte of each fragment at each offset, one byte at a time.
    fn fragments(needed: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let stripe = needed * ERASURE_UNIT_BYTES as usize;
        let mut fragments = vec![vec![]; needed];
        for part in bytes.chunks(stripe) {
            let unit = part.len().div_ceil(needed).next_multiple_of(2);
            for (number, fragment) in fragments.iter_mut().enumerate() {
                let at = |offset| part.get(number * unit + offset).copied().unwrap_or(0);
                fragment.extend((0..unit).map(at));
            }
        }
        fragments
    }

    #[test]
    fn every_span_is_found_in_the_fragments() {
        let mut random = Random::seeded(3);
        for round in 0..60 {
            let needed = 1 + random.below(5) as usize;
            let size = match round % 3 {
                0 => 1 + random.below(200),
                1 => random.below(4 * needed as u64 * ERASURE_UNIT_BYTES),
                _ => (1 + random.below(3)) * needed as u64 * ERASURE_UNIT_BYTES,
            };
            let bytes: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
            let (stripes, fragments) = (Stripes::new(needed, size), fragments(needed, &bytes));
            for fragment in &fragments {
                assert_eq!(fragment.len() as u64, stripes.fragment_bytes(), "{needed} of {size}");
            }
            for _ in 0..20 {
                let start = random.below(size + 10);
                let span = Span::new(start, start + 1 + random.below(size + 10)).unwrap();
                let read: Vec<u8> = stripes
                    .places(span)
                    .iter()
                    .flat_map(|at| {
                        fragments[at.fragment][at.start as usize..at.end as usize].to_vec()
                    })
                    .collect();
                let end = span.end().min(size) as usize;
                let expected = bytes.get(start as usize..end).unwrap_or_default();
                assert!(read == expected, "{span} of {size} bytes in units for {needed}");
            }
        }
    }

    #[test]
    fn the_writes_cover_each_fragment_once_and_in_order() {
        for size in [0, 1, 7, ERASURE_UNIT_BYTES * 3, 20 << 20, (64 << 20) - 1] {
            let stripes = Stripes::new(3, size);
            let mut at = 0;
            for write in stripes.writes() {
                let units = stripes.units(write.clone());
                assert_eq!(units.start, at);
                assert!(units.end - units.start <= STRIPES_OF_A_WRITE * ERASURE_UNIT_BYTES);
                at = units.end;
            }
            assert_eq!(at, stripes.fragment_bytes());
        }
    }
}
