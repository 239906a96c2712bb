//! The head of an object or a snapshot: the table entry with its version, its sizes and the numbers
//! of the nodes that hold its stream, map and attributes. Every request reads it first. Format 1.
//!
//! `1`, then version, time of the last change, size, the nodes of stream, map and attributes (0
//! means empty), start of the tail of small appends, count of map values kept as payloads, count of
//! small appends in the tail, count of attributes. A head that begins with `2` has the same fields,
//! then all bytes of the stream. So a small object that is read or written whole takes one look-up.

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::entry::codec::{Put, Take};
use crate::entry::key::NodeId;

const WITHOUT_STREAM: u8 = 1;
const WITH_STREAM: u8 = 2;

/// A stream of at most this many bytes, if it is written at once, is stored in its object's head.
/// Every change of the object rewrites the head, so the bound is only a few times the size of the
/// other fields.
pub(crate) const WHOLE_MAX_BYTES: usize = 256;

/// What an object holds, by reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Bytes of the stream.
    pub size: u64,
    /// The whole stream, if it is stored in the head. The stream then has no entries of its own.
    pub whole: Option<Bytes>,
    /// Where the stream's extents and slots are, or may come to be.
    pub stream: Option<NodeId>,
    pub map: Option<NodeId>,
    pub attributes: Option<NodeId>,
    /// The stream offset where the slots (small appends at the end) begin. They reach to the end of
    /// the stream. Without slots the field has no meaning.
    pub tail_start: u64,
    /// Small appends not yet folded into an extent.
    pub tail_slots: u32,
    /// The number of map values kept as payloads. While it is 0, a map entry can be replaced
    /// without a look-up of its old value.
    pub payload_values: u64,
    pub attribute_count: u32,
}

impl Content {
    /// Returns the offset where the stream's extents end. Its slots, if it has any, begin there.
    pub fn extents_end(&self) -> u64 {
        if self.tail_slots > 0 { self.tail_start } else { self.size }
    }
}

/// An object, or a snapshot of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub version: u64,
    pub modified_micros: u64,
    pub content: Content,
}

impl Head {
    pub fn encode(&self) -> Bytes {
        let content = &self.content;
        let node = |node: Option<NodeId>| node.map_or(0, |node| node.0);
        let whole = content.whole.as_deref();
        let mut out = Vec::with_capacity(73 + whole.map_or(0, <[u8]>::len));
        out.put_u8(if whole.is_some() { WITH_STREAM } else { WITHOUT_STREAM });
        for number in [
            self.version,
            self.modified_micros,
            content.size,
            node(content.stream),
            node(content.map),
            node(content.attributes),
            content.tail_start,
            content.payload_values,
        ] {
            out.put_u64(number);
        }
        out.put_u32(content.tail_slots);
        out.put_u32(content.attribute_count);
        out.extend_from_slice(whole.unwrap_or_default());
        out.into()
    }

    /// # Errors
    /// `Corrupt` if the bytes are not a head of format 1.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut from = Take(bytes);
        let has_stream = match from.u8()? {
            WITHOUT_STREAM => false,
            WITH_STREAM => true,
            other => {
                return Err(Error::corrupt(format!(
                    "the head of an object has the unknown format {other}"
                )));
            }
        };
        let node = |number| (number != 0).then_some(NodeId(number));
        let mut head = Self {
            version: from.u64()?,
            modified_micros: from.u64()?,
            content: Content {
                size: from.u64()?,
                whole: None,
                stream: node(from.u64()?),
                map: node(from.u64()?),
                attributes: node(from.u64()?),
                tail_start: from.u64()?,
                payload_values: from.u64()?,
                tail_slots: from.u32()?,
                attribute_count: from.u32()?,
            },
        };
        if has_stream {
            let whole = bytes.slice_ref(from.0);
            if whole.len() as u64 != head.content.size || head.content.tail_slots > 0 {
                return Err(Error::corrupt(
                    "the head of an object holds a stream of another size, or one with a tail",
                ));
            }
            head.content.whole = Some(whole);
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use nacre_object::ErrorKind;

    use super::*;

    /// A head as release 0.1.0 writes it. Never change this sample; add one of the next format
    /// beside it.
    const SAMPLE_WITHOUT_STREAM: &str = "01030000000000000005000000000000000700000000000000\
         0900000000000100000000000000000000000000000000000b000000000000000d00000000000000\
         0f00000011000000";
    /// The head of an object whose stream is stored in the head.
    const SAMPLE_WITH_STREAM: &str = "02030000000000000005000000000000000700000000000000\
         0900000000000100000000000000000000000000000000000b000000000000000d00000000000000\
         00000000110000000a0b0c0d0e0f10";

    #[track_caller]
    fn reads_and_writes(content: Content, sample: &str) {
        let head = Head { version: 3, modified_micros: 5, content };
        let hex: String = head.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
        assert_eq!(hex, sample);
    }

    #[test]
    fn the_samples_of_format_1_can_be_read_and_written() {
        let divided = Content {
            size: 7,
            whole: None,
            stream: Some(NodeId::new(1, 9)),
            map: None,
            attributes: None,
            tail_start: 11,
            tail_slots: 15,
            payload_values: 13,
            attribute_count: 17,
        };
        reads_and_writes(divided.clone(), SAMPLE_WITHOUT_STREAM);
        let whole = Some(Bytes::from_static(b"\x0a\x0b\x0c\x0d\x0e\x0f\x10"));
        reads_and_writes(Content { whole, tail_slots: 0, ..divided }, SAMPLE_WITH_STREAM);
    }

    #[test]
    fn a_head_whose_inline_stream_contradicts_its_fields_is_corrupt() {
        let content = Content { size: 2, whole: Some("ab".into()), ..Content::default() };
        let of = |content| Head { version: 1, modified_micros: 1, content }.encode();
        Head::decode(&of(content.clone())).unwrap();
        for content in
            [Content { size: 3, ..content.clone() }, Content { tail_slots: 1, ..content }]
        {
            assert_eq!(Head::decode(&of(content)).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }
}
