//! `Mark`: the note at an object that says which program has encoded its bytes.
//!
//! It is the attribute [`MARK_ATTRIBUTE`] of the object. So snapshots, rollbacks and clones take it
//! along with the bytes. Its value is `NAME@VERSION DIGEST`.

use std::fmt;

use bytes::Bytes;
use nacre_object::{Error, ProgramName, Result};

/// The name of the attribute.
pub const MARK_ATTRIBUTE: &str = "nacre.waypoint";

/// Which program has encoded the bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The name of the program.
    pub program: ProgramName,
    /// Its version, for messages.
    pub version: u64,
    /// The digest of its source. Two versions with the same source have the same code.
    pub digest: String,
}

impl Mark {
    /// Whether the same code belongs to both.
    pub fn is_same_code(&self, other: &Self) -> bool {
        self.program == other.program && self.digest == other.digest
    }

    /// The value of the attribute.
    pub fn encode(&self) -> Bytes {
        Bytes::from(format!("{}@{} {}", self.program, self.version, self.digest))
    }

    /// Reads the value of the attribute.
    ///
    /// # Errors
    /// `Corrupt` if it is no mark.
    pub fn decode(value: &[u8]) -> Result<Self> {
        let parsed = std::str::from_utf8(value).ok().and_then(|text| {
            let (program, digest) = text.split_once(' ')?;
            let (program, version) = program.split_once('@')?;
            let (program, version) = (program.parse().ok()?, version.parse().ok()?);
            Some(Self { program, version, digest: digest.to_owned() })
        });
        parsed.ok_or_else(|| {
            Error::corrupt(format!("the attribute {MARK_ATTRIBUTE} is malformed"))
                .hint("only waypoints may set it: restore the object from a snapshot")
        })
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waypoint/{}@{}", self.program, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_other_values_are_refused() {
        let mark = Mark { program: "a.b".parse().unwrap(), version: 7, digest: "00ff".to_owned() };
        assert_eq!(mark.encode(), "a.b@7 00ff");
        assert_eq!(Mark::decode(&mark.encode()).unwrap(), mark);
        for wrong in [&b""[..], b"a", b"a@x 00", b"a 1", b"\xff@1 00"] {
            assert!(Mark::decode(wrong).is_err(), "{wrong:?}");
        }
        assert!(mark.is_same_code(&Mark { version: 8, ..mark.clone() }));
        assert!(!mark.is_same_code(&Mark { digest: "01".to_owned(), ..mark.clone() }));
    }
}
