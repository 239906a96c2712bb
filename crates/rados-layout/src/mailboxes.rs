//! Mailboxes: the RADOS objects that the watchers of nacre's objects watch.
//!
//! RADOS allows watches only of objects that exist; nacre allows watches of any name. So each pool
//! has a fixed number of small objects, the mailboxes, in their own namespace. The hash of an
//! object's name chooses the mailbox to watch. A notification, a *letter*, says which object it is
//! about. The number of mailboxes does not grow with the number of watched names.

use ring::digest::{SHA256, digest};

/// The number of mailboxes of a pool: enough that two watched objects rarely share one.
pub const MAILBOXES: u32 = 1024;

/// The namespace of a pool's mailboxes. No pool can have this name.
pub fn mailbox_namespace(pool: &str) -> String {
    format!("{pool}/mail")
}

/// The mailbox of an object.
pub fn mailbox(object: &str) -> String {
    let digest = digest(&SHA256, object.as_bytes());
    let mut first = [0; 4];
    first.copy_from_slice(&digest.as_ref()[..4]);
    let number = u32::from_le_bytes(first) % MAILBOXES;
    format!("{number:04}")
}

/// Encodes a notification about an object: the name's length in two bytes, little-endian, the name,
/// and the payload. Names have at most 65,535 bytes.
pub fn encode_letter(object: &str, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(object.len()).unwrap_or(u16::MAX).to_le_bytes();
    [&length[..], object.as_bytes(), payload].concat()
}

/// Which object a notification is about, and where its payload begins. `None` if nacre did not send
/// the notification.
pub fn decode_letter(letter: &[u8]) -> Option<(&str, usize)> {
    let (length, rest) = letter.split_first_chunk::<2>()?;
    let object = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
    let object = std::str::from_utf8(object).ok()?;
    Some((object, length.len() + object.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_letter_can_be_decoded() {
        let letter = encode_letter("a/ü", b"payload");
        let (object, start) = decode_letter(&letter).unwrap();
        assert_eq!((object, &letter[start..]), ("a/ü", &b"payload"[..]));
    }

    #[test]
    fn a_malformed_letter_is_refused() {
        for bytes in [&b""[..], b"\x01", b"\x02\0a", b"\x01\0\xff"] {
            assert_eq!(decode_letter(bytes), None);
        }
    }

    #[test]
    fn the_mailbox_of_a_name_never_changes() {
        // The first four bytes of each SHA-256, little-endian, by sha256sum.
        assert_eq!((mailbox("a").as_str(), mailbox("b").as_str()), ("0970", "0830"));
    }
}
