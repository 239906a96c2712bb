//! `ErasureStub`: the note at an erasure-coded object that says where its fragments are.
//!
//! It is the attribute [`ERASURE_ATTRIBUTE`] of the object. The home sets it in the transaction that
//! drops the bytes, so an object has its bytes or the note. Its value is
//! `1 NEEDED SIZE TERM NUMBER TARGET{TAG},TARGET{TAG}…`: the format, then the numbers in decimal.

use std::fmt::Write;

use bytes::Bytes;
use nacre_object::limits::MAX_OBJECT_BYTES;
use nacre_object::{Error, Result, TargetName};

use super::Stripes;
use crate::copies::CopyTag;
use crate::limits::MAX_SCATTER_TARGETS;
use crate::model::Erasure;
use crate::switch::Term;

/// The name of the attribute.
pub const ERASURE_ATTRIBUTE: &str = "nacre.erasure";
/// The first word of the value.
const FORMAT: &str = "1";

/// Where a fragment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentPlace {
    /// The target, as the rule names it.
    pub target: TargetName,
    /// The placement tag of the fragment's name. It was chosen so that the name lies on the target.
    pub tag: String,
}

/// Where the fragments of an object are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureStub {
    /// How many fragments suffice to compute the bytes.
    pub needed: usize,
    /// The bytes of the object.
    pub size: u64,
    /// Identifies this set of fragments.
    pub set: CopyTag,
    /// The fragments, by number.
    pub places: Vec<FragmentPlace>,
}

impl ErasureStub {
    /// How the bytes are divided.
    pub fn stripes(&self) -> Stripes {
        Stripes::new(self.needed, self.size)
    }

    /// Whether the fragments are where a rule wants them.
    pub fn fits(&self, rule: &Erasure) -> bool {
        self.needed == rule.needed && self.places.iter().map(|at| &at.target).eq(&rule.among)
    }

    /// The value of the attribute.
    pub fn encode(&self) -> Bytes {
        let Self { needed, size, set, places } = self;
        let (term, number) = (set.term.0, set.number);
        let mut text = format!("{FORMAT} {needed} {size} {term} {number} ");
        for (number, FragmentPlace { target, tag }) in places.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{target}{{{tag}}}");
        }
        Bytes::from(text)
    }

    /// Reads the value of the attribute.
    ///
    /// # Errors
    /// `Unsupported` if a later nacre wrote it; `Corrupt` if it is malformed.
    pub fn decode(value: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let (format, rest) = text.split_once(' ').unwrap_or_default();
        if format != FORMAT && format.parse::<u32>().is_ok() {
            return Err(Error::unsupported(format!(
                "the object is erasure-coded in format {format}, and this version of nacre reads only {FORMAT}"
            ))
            .hint("use a newer nacre"));
        }
        let parsed = Some(rest).filter(|_| format == FORMAT).and_then(parse);
        parsed.ok_or_else(|| {
            Error::corrupt(format!("the attribute {ERASURE_ATTRIBUTE} is malformed"))
                .hint("remove the object and put it again")
        })
    }
}

fn parse(text: &str) -> Option<ErasureStub> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (needed, size, term, set) = (number()?, number()?, number()?, number()?);
    let place = |text: &str| {
        let (target, tag) = text.strip_suffix('}')?.split_once('{')?;
        Some(FragmentPlace { target: target.parse().ok()?, tag: tag.to_owned() })
    };
    let places: Vec<_> = words.next()?.split(',').map(place).collect::<Option<_>>()?;
    let needed = usize::try_from(needed).ok()?;
    let is_sound = (1..places.len()).contains(&needed)
        && places.len() <= MAX_SCATTER_TARGETS
        && size <= MAX_OBJECT_BYTES;
    let set = CopyTag { term: Term(term), number: set };
    (is_sound && words.next().is_none()).then_some(ErasureStub { needed, size, set, places })
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    #[test]
    fn a_stub_is_read_as_it_was_written_and_other_values_are_refused() {
        let place = |target: &str, tag: &str| FragmentPlace {
            target: target.parse().unwrap(),
            tag: tag.to_owned(),
        };
        let stub = ErasureStub {
            needed: 2,
            size: 300_001,
            set: CopyTag { term: Term(7), number: u64::MAX },
            places: vec![place("storage.0", "12"), place("storage.1", "3"), place("c", "0")],
        };
        let text = "1 2 300001 7 18446744073709551615 storage.0{12},storage.1{3},c{0}";
        assert_eq!(stub.encode(), text);
        assert_eq!(ErasureStub::decode(text.as_bytes()).unwrap(), stub);
        let refused = |text: &str| ErasureStub::decode(text.as_bytes()).unwrap_err().kind();
        assert_eq!(refused("2 something new"), ErrorKind::Unsupported);
        for wrong in ["", "1", "1 2 3 4 5", "1 3 9 1 1 a{0},b{1},c{2}", "1 0 9 1 1 a{0},b{1}"] {
            assert_eq!(refused(wrong), ErrorKind::Corrupt, "{wrong}");
        }
        assert_eq!(refused(&format!("{text} more")), ErrorKind::Corrupt);
        assert_eq!(refused(&text.replace("300001", "300000001")), ErrorKind::Corrupt, "too large");
        let rule = |needed, among: &[&str]| Erasure {
            needed,
            among: among.iter().map(|one| one.parse().unwrap()).collect(),
        };
        assert!(stub.fits(&rule(2, &["storage.0", "storage.1", "c"])));
        assert!(!stub.fits(&rule(1, &["storage.0", "storage.1", "c"])));
        assert!(!stub.fits(&rule(2, &["storage.0", "storage.1", "d"])));
    }
}
