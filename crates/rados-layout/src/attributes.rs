//! Encodes attributes of nacre's objects as xattrs of RADOS objects.
//!
//! RADOS limits an xattr's name (`osd_max_attr_name_len`, 100 bytes by default) to less than nacre
//! allows. For a longer name, the xattr's name contains the SHA-256 of the attribute's name. The
//! xattr's value then begins with the attribute's name: its length in two bytes, little-endian,
//! then its bytes.

use ring::digest::{SHA256, digest};

/// The longest name that is stored unchanged. RADOS accepts this length with its default settings.
const MAX_PLAIN_BYTES: usize = 96;
/// The beginning of the xattr name of an abbreviated name. A short name with this beginning is
/// abbreviated, too.
const ABBREVIATED: &str = "nacre.long.";

/// An attribute in its stored form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// The xattr's name.
    pub stored_name: String,
    /// The beginning of the xattr's value, before the attribute's value.
    pub preamble: Vec<u8>,
}

impl Attribute {
    /// How the attribute of a name is stored. Names have at most 65,535 bytes.
    pub fn named(name: &str) -> Self {
        if name.len() <= MAX_PLAIN_BYTES && !name.starts_with(ABBREVIATED) {
            return Self { stored_name: name.to_owned(), preamble: vec![] };
        }
        let digest = digest(&SHA256, name.as_bytes());
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
        Self {
            stored_name: format!("{ABBREVIATED}{hex}"),
            preamble: [&length[..], name.as_bytes()].concat(),
        }
    }

    /// The attribute's name, and where its value begins in the xattr. `None` if nacre did not write
    /// the xattr.
    pub fn read(stored_name: &[u8], stored_value: &[u8]) -> Option<(String, usize)> {
        let stored_name = std::str::from_utf8(stored_name).ok()?;
        if !stored_name.starts_with(ABBREVIATED) {
            return Some((stored_name.to_owned(), 0));
        }
        let (length, rest) = stored_value.split_first_chunk::<2>()?;
        let name = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let start = length.len() + name.len();
        (Self::named(&name).stored_name == stored_name).then_some((name, start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_names_of_every_length_can_be_read_back() {
        let names = ["a".to_owned(), "x".repeat(96), "x".repeat(97), "ä".repeat(127)];
        for name in names.into_iter().chain(["nacre.long.", "nacre.long.x"].map(str::to_owned)) {
            let attribute = Attribute::named(&name);
            assert!(attribute.stored_name.len() <= 100, "{name}");
            let stored = [attribute.preamble.as_slice(), b"value"].concat();
            let (found, start) =
                Attribute::read(attribute.stored_name.as_bytes(), &stored).expect("it is ours");
            assert_eq!((found, &stored[start..]), (name, &b"value"[..]));
        }
    }

    #[test]
    fn an_xattr_with_a_malformed_abbreviated_name_is_ignored() {
        for value in [&b""[..], b"\x05", b"\x05\0ab", b"\x01\0a"] {
            assert_eq!(Attribute::read(b"nacre.long.00", value), None);
        }
        assert_eq!(Attribute::read(b"\xff", b""), None);
    }
}
