//! The name of a script's source: its SHA-256.

use std::fmt;
use std::str::FromStr;

use nacre_object::{Error, Result};
use ring::digest::{SHA256, digest};

/// SHA-256 of a source, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a source.
    pub fn of(source: impl AsRef<[u8]>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, source.as_ref()).as_ref());
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut bytes = [0; 32];
        let pairs = text.as_bytes().chunks_exact(2);
        if text.len() != 2 * bytes.len() {
            return Err(Error::invalid(format!("{text:?} is not a SHA-256 digest"))
                .hint("give 64 hexadecimal digits"));
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            *byte = hex_digit(pair[0])
                .zip(hex_digit(pair[1]))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(|| Error::invalid(format!("{text:?} is not a SHA-256 digest")))?;
        }
        Ok(Self(bytes))
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_can_be_printed_and_parsed() {
        let digest = Digest::of("abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().unwrap(), digest);
        assert!(text[1..].parse::<Digest>().is_err());
        assert!(text.replace('b', "g").parse::<Digest>().is_err());
    }
}
