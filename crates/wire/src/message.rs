//! Encodes the small fields of a message (such as its id) apart from its body. These fields are
//! known only when the message is sent, and a body that is sent again gets new fields.

use std::ops::Deref;

use nacre_object::Error;
use prost::encoding::uint64;

/// There are four fields. Each takes one byte for its tag and at most ten bytes for its number.
const MAX_FIELDS_BYTES: usize = 4 * (1 + 10);

const ID_TAG: u32 = 1;
const TIMEOUT_TAG: u32 = 2;
const TRACE_TAG: u32 = 3;
const SPAN_TAG: u32 = 11;

/// The trace that a message belongs to, and the sender's span in which the message was sent. Both
/// ids are 0 if the message is not traced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) trace_id: u64,
    pub(crate) span_id: u64,
}

/// Encoded fields.
pub(crate) struct Fields {
    bytes: [u8; MAX_FIELDS_BYTES],
    length: usize,
}

impl Deref for Fields {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Fields {
    fn new() -> Self {
        Self { bytes: [0; MAX_FIELDS_BYTES], length: 0 }
    }

    /// Encodes the id, and no other field.
    pub(crate) fn of_id(id: u64) -> Self {
        Self::new().with(ID_TAG, id)
    }

    fn with(mut self, tag: u32, value: u64) -> Self {
        if value != 0 {
            let mut free = &mut self.bytes[self.length..];
            uint64::encode(tag, &value, &mut free);
            self.length = MAX_FIELDS_BYTES - free.len();
        }
        self
    }
}

/// The error for a message whose body is from the future.
pub(crate) fn unknown() -> Error {
    Error::unsupported("the node does not know this kind of message")
        .hint("the client speaks a newer protocol: upgrade the node")
}

/// The error for work that takes longer than its client waits.
pub(crate) fn late() -> Error {
    Error::unavailable("the request was not done within its deadline").hint(
        "the request may still be carried out: check that, then try again with a longer deadline",
    )
}

/// The error for a long poll on a node that stops.
pub(crate) fn stopping() -> Error {
    Error::unavailable("the node is stopping").hint("try again: the node may come back")
}

/// The fields of a `ServerMessage`.
pub(crate) fn server_fields(id: u64) -> Fields {
    Fields::new().with(ID_TAG, id)
}

/// The fields of a `ClientMessage`.
pub(crate) fn client_fields(id: u64, timeout_micros: u64, origin: Origin) -> Fields {
    let fields = Fields::new().with(ID_TAG, id).with(TIMEOUT_TAG, timeout_micros);
    if origin.trace_id == 0 {
        return fields;
    }
    fields.with(TRACE_TAG, origin.trace_id).with(SPAN_TAG, origin.span_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::proto::{ClientMessage, ServerMessage};
    use prost::Message;

    #[test]
    fn hand_encoded_fields_equal_the_generated_encoding() {
        let fields =
            client_fields(u64::MAX, u64::MAX, Origin { trace_id: u64::MAX, span_id: u64::MAX });
        let message = ClientMessage::decode(&*fields).unwrap();
        assert_eq!((message.id, message.timeout_micros), (u64::MAX, u64::MAX));
        assert_eq!((message.trace_id, message.span_id), (u64::MAX, u64::MAX));
        assert_eq!(ServerMessage::decode(&*server_fields(7)).unwrap().id, 7);
        assert!(server_fields(0).is_empty());
    }
}
