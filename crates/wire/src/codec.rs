//! The gRPC codec of batches. The [`Outbox`](crate::outbox) has encoded a batch that is sent, so
//! this codec only copies its bytes. It splits a received batch into messages, which stay encoded
//! until they are needed. It refuses a batch of more than `MAX_BATCH_MESSAGES` messages.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use nacre_telemetry::Counter;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::limits::{BATCH_BYTES, MAX_BATCH_MESSAGES};
use crate::outbox::EncodedBatch;

/// Field 1 of `ClientBatch` and `ServerBatch`.
pub(crate) const MESSAGES_TAG: u32 = 1;
/// A batch that is longer than this has a large message in it.
const LARGE_BATCH_BYTES: usize = 2 * BATCH_BYTES;

/// The header of each message of gRPC: whether it is compressed, and its length.
const GRPC_HEADER_BYTES: usize = 5;

/// The bytes of the batches of some sessions, with the headers of gRPC. The frames of HTTP/2 are
/// not counted.
#[derive(Debug, Default)]
pub(crate) struct SessionBytes {
    pub received: Counter,
    pub sent: Counter,
}

fn count(counter: &Counter, batch_bytes: usize) {
    counter.add((GRPC_HEADER_BYTES + batch_bytes) as u64);
}

/// Sends encoded batches, receives batches of messages that are still encoded.
#[derive(Debug, Default)]
pub(crate) struct BatchCodec {
    bytes: Arc<SessionBytes>,
}

impl BatchCodec {
    /// A codec that adds to these counts.
    pub(crate) fn counting(bytes: &Arc<SessionBytes>) -> Self {
        Self { bytes: Arc::clone(bytes) }
    }
}

impl Codec for BatchCodec {
    type Encode = EncodedBatch;
    type Decode = Batch;
    type Encoder = BatchEncoder;
    type Decoder = BatchDecoder;

    fn encoder(&mut self) -> BatchEncoder {
        BatchEncoder { bytes: Arc::clone(&self.bytes) }
    }

    fn decoder(&mut self) -> BatchDecoder {
        BatchDecoder { longest: 0, bytes: Arc::clone(&self.bytes) }
    }
}

#[derive(Debug)]
pub(crate) struct BatchEncoder {
    bytes: Arc<SessionBytes>,
}

impl Encoder for BatchEncoder {
    type Item = EncodedBatch;
    type Error = Status;

    fn encode(&mut self, batch: EncodedBatch, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        count(&self.bytes.sent, batch.head.len() + batch.tail.len());
        out.reserve(batch.head.len() + batch.tail.len());
        out.put_slice(&batch.head);
        out.put_slice(&batch.tail);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// The settings of tonic's buffers: a full batch fits into one buffer, and a buffer is sent as soon
/// as it holds a batch.
fn buffers() -> BufferSettings {
    BufferSettings::new(BATCH_BYTES, BATCH_BYTES)
}

#[derive(Debug)]
pub(crate) struct BatchDecoder {
    /// The length of the longest batch so far. The connection's receive buffer has grown to this
    /// length, and shorter batches use it again.
    longest: usize,
    bytes: Arc<SessionBytes>,
}

impl Decoder for BatchDecoder {
    type Item = Batch;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Batch>, Status> {
        count(&self.bytes.received, source.remaining());
        self.longest = self.longest.max(source.remaining());
        Ok(Some(Batch::within(source.copy_to_bytes(source.remaining()), self.longest)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// The messages of a received batch that the session has not taken yet. They stay encoded: if the
/// batch were decoded at once, all its decoded messages would occupy memory together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rest: Bytes,
    /// Messages that were taken.
    taken: usize,
    /// A message shorter than this is copied out of the batch. A slice of the batch would keep the
    /// whole buffer in memory.
    copied_below: usize,
}

impl Batch {
    #[cfg(test)]
    pub(crate) fn new(bytes: Bytes) -> Self {
        let length = bytes.len();
        Self::within(bytes, length)
    }

    /// One that lies in a buffer of about this length.
    fn within(bytes: Bytes, buffer: usize) -> Self {
        let copied_below = if buffer > LARGE_BATCH_BYTES { buffer / 2 } else { 0 };
        Self { rest: bytes, taken: 0, copied_below }
    }

    /// Whether all was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Decodes all remaining messages. Bytes in these messages are slices of the batch, not copies.
    pub(crate) fn decode<M: Message + Default>(self) -> Result<Vec<M>, Status> {
        self.map(|message| M::decode(message?).map_err(malformed)).collect()
    }

    /// The next message, encoded.
    fn take(&mut self) -> Result<Option<Bytes>, Status> {
        while self.rest.has_remaining() {
            let (tag, wire_type) = decode_key(&mut self.rest).map_err(malformed)?;
            if (tag, wire_type) != (MESSAGES_TAG, WireType::LengthDelimited) {
                skip_field(wire_type, tag, &mut self.rest, DecodeContext::default())
                    .map_err(malformed)?;
                continue;
            }
            let length = decode_varint(&mut self.rest).map_err(malformed)?;
            if length > self.rest.len() as u64 {
                return Err(malformed("a message is longer than its batch"));
            }
            if self.taken == MAX_BATCH_MESSAGES {
                let text = format!("a batch may have at most {MAX_BATCH_MESSAGES} messages");
                return Err(Status::out_of_range(text));
            }
            self.taken += 1;
            let message = self.rest.split_to(length as usize);
            let is_small = message.len() < self.copied_below;
            return Ok(Some(if is_small { Bytes::copy_from_slice(&message) } else { message }));
        }
        Ok(None)
    }
}

impl Iterator for Batch {
    type Item = Result<Bytes, Status>;

    /// After an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.take();
        if next.is_err() {
            self.rest.clear();
        }
        next.transpose()
    }
}

pub(crate) fn malformed(why: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("a malformed batch: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::proto::{ClientBatch, ClientMessage};
    use tonic::Code;

    fn decoded(encoded: impl Into<Bytes>) -> Result<Vec<ClientMessage>, Status> {
        Batch::new(encoded.into()).decode()
    }

    #[test]
    fn an_encoded_batch_decodes_into_its_messages() {
        let messages: Vec<_> =
            (1..4).map(|id| ClientMessage { id, ..ClientMessage::default() }).collect();
        let encoded = ClientBatch { messages: messages.clone() }.encode_to_vec();
        assert_eq!(decoded(encoded).unwrap(), messages);
        assert_eq!(decoded(Bytes::new()).unwrap(), []);
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let mut encoded = vec![0x10, 0x07]; // field 2, varint 7
        encoded.extend(ClientBatch { messages: vec![ClientMessage::default()] }.encode_to_vec());
        assert_eq!(decoded(encoded).unwrap().len(), 1);
    }

    #[test]
    fn malformed_batches_and_batches_of_too_many_messages_are_refused() {
        let code = |bytes: Vec<u8>| decoded(bytes).unwrap_err().code();
        assert_eq!(code(vec![0xff; 11]), Code::InvalidArgument);
        assert_eq!(code(vec![0x0a, 0x05, 0x08]), Code::InvalidArgument);
        assert_eq!(code([0x0a, 0x00].repeat(MAX_BATCH_MESSAGES + 1)), Code::OutOfRange);
        let mut batch = Batch::new(Bytes::from_static(&[0x0a, 0x05, 0x0a, 0x00]));
        assert!(batch.next().unwrap().is_err());
        assert!(batch.next().is_none() && batch.is_empty());
    }

    #[test]
    fn a_small_message_does_not_keep_a_large_batch_in_memory() {
        let large = vec![0; LARGE_BATCH_BYTES];
        let mut encoded = vec![0x0a, 0x01, 0x00, 0x0a];
        prost::encoding::encode_varint(large.len() as u64, &mut encoded);
        encoded.extend(&large);
        let encoded = Bytes::from(encoded);
        let is_slice = |message: &Bytes| encoded.as_ptr_range().contains(&message.as_ptr());
        let messages: Result<Vec<_>, _> = Batch::new(encoded.clone()).collect();
        assert_eq!(messages.unwrap().iter().map(is_slice).collect::<Vec<_>>(), [false, true]);

        // This batch is short, but it lies in the large receive buffer of an earlier batch. A slice
        // would keep that buffer in memory, so the message must be copied.
        let short = encoded.slice(..3);
        for (buffer, expected) in [(3, true), (encoded.len(), false)] {
            let message = Batch::within(short.clone(), buffer).next().unwrap().unwrap();
            assert_eq!(is_slice(&message), expected, "in {buffer} bytes");
        }
    }
}
