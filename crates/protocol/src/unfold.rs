//! Computes how much memory a client's message will need after decoding, before it is decoded.
//!
//! Decoding turns an op of two bytes into one of a hundred bytes, and an empty key into a handle of
//! thirty bytes. So a message within the limit on its bytes could need a gigabyte of memory before
//! any of its content is checked. Therefore this module first counts the repeated fields, by a walk
//! over the tags that stores nothing.
//!
//! **Invariant:** a count is never less than what decoding produces from the same bytes. The walk
//! ends at malformed bytes; decoding fails there, too, and reports the error.

use nacre_object::{Error, Result};
use prost::encoding::{DecodeContext, WireType, decode_varint, skip_field};

use crate::proto as pb;

/// `ClientMessage.id` and `ClientMessage.request`.
const ID_TAG: u32 = 1;
const REQUEST_TAG: u32 = 5;
/// `ObjectRequest.ops`.
const OPS_TAG: u32 = 4;
/// `Op.map_get`, `Op.map_set` and `Op.map_remove`.
const MAP_GET_TAG: u32 = 17;
const MAP_SET_TAG: u32 = 18;
const MAP_REMOVE_TAG: u32 = 19;
/// `Keys.keys` and `MapEntries.entries`.
const ITEMS_TAG: u32 = 1;

/// The shortest op, key or entry: its tag and its length.
const MIN_PART_BYTES: usize = 2;

const _: () = assert!(size_of::<pb::Op>() >= size_of::<pb::MapEntry>());

/// The numbers of those parts that need more memory after decoding than before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfolded {
    /// Ops of requests.
    pub ops: usize,
    /// Keys and map entries.
    pub keys: usize,
}

impl Unfolded {
    /// The memory that these parts need in addition to their content.
    pub const fn bytes(self) -> usize {
        self.ops * size_of::<pb::Op>() + self.keys * size_of::<pb::MapEntry>()
    }

    /// The most memory that a message of this length can need, whatever its content.
    pub const fn most_bytes(length: usize) -> usize {
        length / MIN_PART_BYTES * size_of::<pb::Op>()
    }

    fn check(self, most: Self) -> Result<()> {
        let what = match most {
            Self { ops, .. } if self.ops > ops => format!("{ops} ops"),
            Self { keys, .. } if self.keys > keys => format!("{keys} keys and entries"),
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("a transaction cannot have more than {what}")).hint("split it"))
    }
}

/// An encoded `ClientMessage` that was looked through.
#[derive(Debug)]
pub struct Outline {
    /// Its id.
    pub id: u64,
    /// The numbers of parts; `Invalid` if they exceed the limits.
    pub unfolded: Result<Unfolded>,
}

/// Looks through an encoded `ClientMessage`, not much further than `most`.
pub fn outline(message: &[u8], most: Unfolded) -> Outline {
    let (mut id, mut unfolded) = (0, Unfolded::default());
    for field in Fields(message) {
        match field {
            Field::Number(ID_TAG, number) => id = number,
            // If a body occurs twice, the decoder merges the two, so add up their parts.
            Field::Bytes(REQUEST_TAG, request) => count_request(request, &mut unfolded, most),
            _ => {}
        }
    }
    Outline { id, unfolded: unfolded.check(most).map(|()| unfolded) }
}

fn count_request(request: &[u8], unfolded: &mut Unfolded, most: Unfolded) {
    for field in Fields(request) {
        if let Field::Bytes(OPS_TAG, op) = field {
            unfolded.ops += 1;
            count_op(op, unfolded, most);
            if unfolded.ops > most.ops || unfolded.keys > most.keys {
                return;
            }
        }
    }
}

fn count_op(op: &[u8], unfolded: &mut Unfolded, most: Unfolded) {
    for field in Fields(op) {
        if let Field::Bytes(MAP_GET_TAG | MAP_SET_TAG | MAP_REMOVE_TAG, items) = field {
            let items = Fields(items).filter(|item| matches!(item, Field::Bytes(ITEMS_TAG, _)));
            unfolded.keys += items.take(most.keys + 1).count();
        }
    }
}

/// A field of an encoded message, by its tag.
enum Field<'a> {
    Number(u32, u64),
    Bytes(u32, &'a [u8]),
    Other,
}

/// The fields of an encoded message, as far as they make sense.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let Self(rest) = self;
        if rest.is_empty() {
            return None;
        }
        let key = number(rest)?;
        let (tag, wire_type) = (u32::try_from(key >> 3).ok()?, key & 7);
        Some(match WireType::try_from(wire_type).ok()? {
            WireType::Varint => Field::Number(tag, number(rest)?),
            WireType::LengthDelimited => {
                let length = usize::try_from(number(rest)?).ok()?;
                Field::Bytes(tag, rest.split_off(..length)?)
            }
            other => {
                skip_field(other, tag, rest, DecodeContext::default()).ok()?;
                Field::Other
            }
        })
    }
}

/// Most keys and lengths have one byte.
#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    match *rest {
        [byte @ 0..0x80, after @ ..] => {
            *rest = after;
            Some((*byte).into())
        }
        _ => decode_varint(rest).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use pb::client_message::Body;
    use pb::op::Op;
    use prost::Message;

    const MOST: Unfolded = Unfolded { ops: 4, keys: 6 };

    fn encoded(ops: Vec<Op>) -> Vec<u8> {
        let ops = ops.into_iter().map(|op| pb::Op { op: Some(op) }).collect();
        let request = pb::ObjectRequest { pool: "data".to_owned(), ops, ..Default::default() };
        let body = Some(Body::Request(request));
        pb::ClientMessage { id: 7, timeout_micros: 5, body, ..Default::default() }.encode_to_vec()
    }

    fn get(keys: usize) -> Op {
        Op::MapGet(pb::op::Keys { keys: vec![Bytes::new(); keys] })
    }

    fn set(entries: usize) -> Op {
        Op::MapSet(pb::op::MapEntries { entries: vec![pb::MapEntry::default(); entries] })
    }

    fn refusal(message: &[u8]) -> String {
        let outline = outline(message, MOST);
        assert_eq!(outline.id, 7);
        outline.unfolded.unwrap_err().to_string()
    }

    #[test]
    fn ops_keys_and_entries_are_counted() {
        let data = Op::WriteFull(Bytes::from_static(&[0x22, 0x00, 0x22, 0x00]));
        let message = encoded(vec![
            get(1),
            set(2),
            data,
            Op::MapRemove(pb::op::Keys { keys: vec![Bytes::new()] }),
        ]);
        let Outline { id, unfolded } = outline(&message, MOST);
        assert_eq!((id, unfolded.unwrap()), (7, Unfolded { ops: 4, keys: 4 }));
    }

    #[test]
    fn a_message_past_a_bound_is_refused_wherever_the_excess_is() {
        assert!(refusal(&encoded(vec![Op::Append(Bytes::new()); 5])).contains("4 ops"));
        assert!(refusal(&encoded(vec![get(7)])).contains("6 keys"));
        assert!(refusal(&encoded(vec![get(3), set(4)])).contains("6 keys"));
        // A body that occurs twice has the parts of both.
        let twice = [encoded(vec![get(1); 3]), encoded(vec![get(1); 2])].concat();
        assert!(refusal(&twice).contains("4 ops"));
    }

    #[test]
    fn messages_of_other_kinds_and_malformed_messages_are_counted_as_empty() {
        let ask = pb::Ask {
            service: "s".to_owned(),
            input: encoded(vec![get(9)]).into(),
            ..Default::default()
        };
        let ask = pb::ClientMessage { id: 7, body: Some(Body::Ask(ask)), ..Default::default() };
        for bytes in [ask.encode_to_vec(), vec![0xff; 20], vec![0x2a, 0x7f, 0x22], vec![]] {
            assert_eq!(outline(&bytes, MOST).unfolded.unwrap(), Unfolded::default());
        }
    }
}
