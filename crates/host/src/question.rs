//! The encoding of requests to a host: the header of all requests, and the `recover` request, which
//! every kind of state machine has.
//!
//! Numbers are little-endian. Every request starts with the machine's name (its length u16, then
//! UTF-8) and the epoch of the client's record (u64). The rest depends on the kind.
//!
//! | method | after the header | answer |
//! | --- | --- | --- |
//! | `recover` | – | epoch u64 of the record to use now |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use nacre_object::limits::MAX_EXACT_INTEGER;
use nacre_object::{Error, Result};

use crate::record::Record;

/// The method that makes a node take a state machine over.
pub const RECOVER: &str = "recover";

/// A request to one kind of state machine.
pub trait Question<N>: Sync {
    /// The method.
    fn method(&self) -> &'static str;

    /// Encodes the request to the machine `name`, from a client whose record has `epoch`.
    fn encode(&self, name: &N, epoch: u64) -> Bytes;

    /// The epoch of the record under which the authority answered. `None` if this kind's answers do
    /// not contain it. If that record names another node than the one that the client asked, the
    /// asked node has forwarded the request.
    fn answered_under(&self, _answer: &[u8]) -> Option<u64> {
        None
    }
}

/// Writes the header of a request.
pub fn put_header(input: &mut BytesMut, name: &str, epoch: u64) {
    debug_assert!(name.len() <= usize::from(u16::MAX), "names are shorter");
    input.put_u16_le(name.len() as u16);
    input.put_slice(name.as_bytes());
    input.put_u64_le(epoch);
}

/// Splits a request into the machine's name, the epoch, and the rest. Returns `None` if the request
/// is malformed. It does not check the name.
pub fn split_header(input: &[u8]) -> Option<(&str, u64, &[u8])> {
    let (length, rest) = input.split_first_chunk()?;
    let (name, mut rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let epoch = rest.try_get_u64_le().ok().filter(|epoch| *epoch < MAX_EXACT_INTEGER)?;
    Some((std::str::from_utf8(name).ok()?, epoch, rest))
}

/// Encodes the request that makes a node take a state machine over. If a record with an epoch later
/// than `epoch` is stored, the node adopts that record instead.
pub fn recover_question(name: &str, epoch: u64) -> Bytes {
    let mut input = BytesMut::with_capacity(2 + name.len() + 8);
    put_header(&mut input, name, epoch);
    input.freeze()
}

/// The answer that is an epoch.
pub fn encode_epoch(epoch: u64) -> Bytes {
    Bytes::copy_from_slice(&epoch.to_le_bytes())
}

/// Decodes an answer that is an epoch.
///
/// # Errors
/// `Corrupt` if the answer has another form.
pub fn decode_epoch<R: Record>(answer: &[u8]) -> Result<u64> {
    let epoch = answer.try_into().map(u64::from_le_bytes).ok();
    epoch.filter(|epoch| *epoch < MAX_EXACT_INTEGER).ok_or_else(|| {
        Error::corrupt(format!("the answer of the {} cannot be decoded", R::WORDS.authority))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_reads_back_as_written_and_a_truncated_one_is_refused() {
        let question = recover_question("orders", 7);
        assert_eq!(split_header(&question), Some(("orders", 7, &[][..])));
        assert_eq!(
            split_header(&[&question[..], b"more"].concat()),
            Some(("orders", 7, &b"more"[..]))
        );
        for length in 0..question.len() {
            assert_eq!(split_header(&question[..length]), None);
        }
        assert_eq!(split_header(&recover_question("orders", u64::MAX)), None);
    }
}
