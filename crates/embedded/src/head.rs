//! The head: what is known of an object, or of a snapshot of one, without reading it. Format 1.
//!
//! `1`, then version, time of change, size, the nodes of stream, map and attributes (0: there is
//! nothing in it), start and count of the tail, count of map values kept as payloads, count of
//! attributes.

use bytes::Bytes;
use nacre_object::{Error, Result};

use crate::codec::{Put, Take};
use crate::key::NodeId;

const FORMAT: u8 = 1;

/// What an object holds, by reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Bytes of the stream.
    pub size: u64,
    pub stream: Option<NodeId>,
    pub map: Option<NodeId>,
    pub attributes: Option<NodeId>,
    /// Where the bytes in slots start; they reach to the end of the stream. No meaning without
    /// slots.
    pub tail_start: u64,
    /// Small appends not yet folded into an extent.
    pub tail_slots: u32,
    /// Map values kept as payloads. While there are none, a map entry can be replaced without
    /// looking at what it replaces.
    pub payload_values: u64,
    pub attribute_count: u32,
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
        let mut out = Vec::with_capacity(73);
        out.put_u8(FORMAT);
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
        out.into()
    }

    /// # Errors
    /// `Corrupt` if it is not a head, or of a format this release does not know.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Take(bytes);
        match from.u8()? {
            FORMAT => {}
            other => return Err(Error::corrupt(format!("a head of format {other}"))),
        }
        let node = |number| (number != 0).then_some(NodeId(number));
        Ok(Self {
            version: from.u64()?,
            modified_micros: from.u64()?,
            content: Content {
                size: from.u64()?,
                stream: node(from.u64()?),
                map: node(from.u64()?),
                attributes: node(from.u64()?),
                tail_start: from.u64()?,
                payload_values: from.u64()?,
                tail_slots: from.u32()?,
                attribute_count: from.u32()?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What release 0.1 writes; never change it, add a sample of the next format beside it.
    const SAMPLE_FORMAT_1: &str = "01030000000000000005000000000000000700000000000000\
         0900000000000100000000000000000000000000000000000b000000000000000d00000000000000\
         0f00000011000000";

    #[test]
    fn the_sample_of_format_1_reads_and_writes() {
        let content = Content {
            size: 7,
            stream: Some(NodeId::new(1, 9)),
            map: None,
            attributes: None,
            tail_start: 11,
            tail_slots: 15,
            payload_values: 13,
            attribute_count: 17,
        };
        let head = Head { version: 3, modified_micros: 5, content };
        let hex: String = head.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(Head::decode(&head.encode()).unwrap(), head);
        assert_eq!(hex, SAMPLE_FORMAT_1.replace(' ', ""));
    }
}
