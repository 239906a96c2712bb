//! Computes fragments from an object's bytes, and bytes from fragments (Reed-Solomon).

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use nacre_object::{Error, Result};
use nacre_route::Stripes;

/// How an object's bytes are divided, and how many fragments are computed from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    pub stripes: Stripes,
    /// The fragments that have the object's bytes. As many suffice to compute the others.
    pub needed: usize,
    /// All fragments.
    pub all: usize,
}

/// What to do about fragments from which the bytes cannot be computed.
const HINT: &str = "if it stays so, remove the object and put it again";

fn impossible(cause: reed_solomon_simd::Error) -> Error {
    Error::corrupt(format!("the fragments of an object do not fit together: {cause}")).hint(HINT)
}

impl Code {
    /// The units of some stripes for each fragment, from the object's bytes of these stripes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not those of the stripes.
    pub fn encode(self, stripes: Range<u64>, bytes: &Bytes) -> Result<Vec<Bytes>> {
        let mut fragments = vec![BytesMut::new(); self.all];
        let mut rest = bytes.clone();
        for stripe in stripes {
            let length = self.stripes.span(stripe..stripe + 1).map_or(0, |span| span.length());
            if rest.len() < length as usize {
                return Err(Error::corrupt("an object is shorter than its size says").hint(HINT));
            }
            let of_stripe = rest.split_to(length as usize);
            let unit = self.stripes.unit_bytes(stripe) as usize;
            let mut padded = BytesMut::from(&of_stripe[..]);
            padded.resize(unit * self.needed, 0);
            let units: Vec<&[u8]> = padded.chunks(unit).collect();
            let computed = reed_solomon_simd::encode(self.needed, self.all - self.needed, &units)
                .map_err(impossible)?;
            let units = units.into_iter().chain(computed.iter().map(Vec::as_slice));
            for (fragment, unit) in fragments.iter_mut().zip(units) {
                fragment.extend_from_slice(unit);
            }
        }
        Ok(fragments.into_iter().map(BytesMut::freeze).collect())
    }

    /// The object's bytes of some stripes, from their units in `needed` fragments or more.
    ///
    /// # Errors
    /// `Corrupt` if the fragments are too few, too short or too long.
    pub fn decode(self, stripes: Range<u64>, fragments: &BTreeMap<usize, Bytes>) -> Result<Bytes> {
        let units = self.stripes.units(stripes.clone());
        let mut bytes = BytesMut::new();
        let length = (units.end - units.start) as usize;
        if fragments.values().any(|fragment| fragment.len() != length) {
            return Err(Error::corrupt("a fragment of an object has another length").hint(HINT));
        }
        for stripe in stripes {
            let at = self.stripes.units(stripe..stripe + 1);
            let at = (at.start - units.start) as usize..(at.end - units.start) as usize;
            let units = fragments.iter().map(|(number, fragment)| (*number, &fragment[at.clone()]));
            let (plain, computed): (Vec<_>, Vec<_>) =
                units.partition(|(number, _)| *number < self.needed);
            let computed = computed.into_iter().map(|(number, unit)| (number - self.needed, unit));
            let restored = match plain.len() == self.needed {
                true => Default::default(),
                false => reed_solomon_simd::decode(
                    self.needed,
                    self.all - self.needed,
                    plain.iter().copied(),
                    computed,
                )
                .map_err(impossible)?,
            };
            let plain: BTreeMap<usize, &[u8]> = plain.into_iter().collect();
            let start = bytes.len();
            for number in 0..self.needed {
                let restored = || restored.get(&number).map(Vec::as_slice);
                let unit = plain.get(&number).copied().or_else(restored);
                let short = || Error::corrupt("too few fragments of an object are left").hint(HINT);
                bytes.extend_from_slice(unit.ok_or_else(short)?);
            }
            let length = self.stripes.span(stripe..stripe + 1).map_or(0, |span| span.length());
            bytes.truncate(start + length as usize);
        }
        Ok(bytes.freeze())
    }
}

#[cfg(test)]
mod tests {
    use nacre_clock::Random;
    use nacre_object::ErrorKind;

    use super::*;

    #[test]
    fn bytes_come_back_from_any_fragments_that_suffice_and_from_no_fewer() {
        let mut random = Random::seeded(11);
        for round in 0..40 {
            let needed = 1 + random.below(4) as usize;
            let all = needed + 1 + random.below(3) as usize;
            let size = if round == 0 { 1 } else { 1 + random.below(1 << 20) };
            let bytes: Bytes = (0..size).map(|_| random.next_u64() as u8).collect();
            let code = Code { stripes: Stripes::new(needed, size), needed, all };
            let stripes = 0..code.stripes.count();
            let fragments = code.encode(stripes.clone(), &bytes).unwrap();
            let mut left: BTreeMap<usize, Bytes> = fragments.iter().cloned().enumerate().collect();
            while left.len() >= needed {
                assert!(code.decode(stripes.clone(), &left).unwrap() == bytes, "{code:?} {left:?}");
                let gone = *left.keys().nth(random.below(left.len() as u64) as usize).unwrap();
                left.remove(&gone);
            }
            let error = code.decode(stripes, &left).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn some_stripes_are_coded_as_within_the_whole() {
        let size = 9 * 2 * (128 << 10) + 77;
        let code = Code { stripes: Stripes::new(2, size), needed: 2, all: 3 };
        let bytes: Bytes = (0..size).map(|at| (at * 131 % 251) as u8).collect();
        let whole = code.encode(0..10, &bytes).unwrap();
        for stripes in [0..1, 2..5, 8..10, 9..10] {
            let span = code.stripes.span(stripes.clone()).unwrap();
            let part = bytes.slice(span.start() as usize..span.end() as usize);
            let units = code.stripes.units(stripes.clone());
            let units = units.start as usize..units.end as usize;
            let coded = code.encode(stripes.clone(), &part).unwrap();
            for (number, fragment) in coded.iter().enumerate() {
                assert!(*fragment == whole[number].slice(units.clone()), "{stripes:?} {number}");
            }
            let left = [(0, coded[0].clone()), (2, coded[2].clone())].into();
            assert!(code.decode(stripes.clone(), &left).unwrap() == part, "{stripes:?}");
        }
    }
}
