//! What is asked of a log's objects, and what they answer and keep.

use bytes::{Bytes, BytesMut};
use nacre_fuzz::fuzz;

use super::entry::EntryState;
use super::header::ObjectHeader;
use super::input::*;
use crate::codec::Decoder;
use crate::record;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn fuzz_inputs_of_storage_methods() {
    let of = |method: u8, input: Bytes| [&[method], &input[..]].concat();
    let samples = [
        of(0, encode_epoch(7)),
        of(1, encode_position(7, 1)),
        of(3, encode_write_batch(7, [(1, &Bytes::from_static(b"abc"))].into_iter())),
        of(4, encode_fill_batch(7, &[1, 2])),
        of(5, encode_read_batch(7, 100, &[1, 2])),
    ];
    fuzz(CRATE, "storage_inputs", &samples, |input| {
        let Some((method, rest)) = input.split_first() else { return false };
        let rest = Bytes::copy_from_slice(rest);
        match method % 6 {
            0 => decode_epoch(rest).is_ok(),
            1 => decode_position(rest).is_ok(),
            2 => decode_write(rest).is_ok(),
            3 => decode_write_batch(rest).is_ok(),
            4 => decode_fill_batch(rest).is_ok(),
            _ => decode_read_batch(rest).is_ok(),
        }
    });
}

#[test]
fn fuzz_answers_entries_and_headers_of_storage() {
    let mut entry = BytesMut::new();
    EntryState::Data(Bytes::from_static(b"abc")).encode(&mut entry);
    let of = |what: u8, bytes: &[u8]| [&[what], bytes].concat();
    let samples = [of(0, &entry), of(2, &[0; 8])];
    fuzz(CRATE, "storage_answers", &samples, |input| {
        let Some((what, rest)) = input.split_first() else { return false };
        let rest = Bytes::copy_from_slice(rest);
        match what % 6 {
            0 => EntryState::decode(&mut Decoder::new(rest)).is_ok(),
            1 => decode_states(rest, 3).is_ok(),
            2 => decode_statuses(rest, 2).is_ok(),
            3 => decode_maximum(rest).is_ok(),
            4 => ObjectHeader::decode(rest).is_ok(),
            _ => record::decode(rest, 1).is_ok(),
        }
    });
}
