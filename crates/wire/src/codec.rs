//! How gRPC messages are made of batches: sent as encoded by the [`Outbox`](crate::outbox),
//! received message by message within bounds.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::limits::{BATCH_BYTES, MAX_BATCH_MESSAGES};
use crate::outbox::EncodedBatch;

/// Field 1 of `ClientBatch` and `ServerBatch`.
pub(crate) const MESSAGES_TAG: u32 = 1;

/// Sends encoded batches, receives batches of `M`.
#[derive(Debug)]
pub(crate) struct BatchCodec<M>(PhantomData<fn() -> M>);

impl<M> Default for BatchCodec<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Message + Default + 'static> Codec for BatchCodec<M> {
    type Encode = EncodedBatch;
    type Decode = Vec<M>;
    type Encoder = BatchEncoder;
    type Decoder = BatchDecoder<M>;

    fn encoder(&mut self) -> BatchEncoder {
        BatchEncoder
    }

    fn decoder(&mut self) -> BatchDecoder<M> {
        BatchDecoder(PhantomData)
    }
}

#[derive(Debug)]
pub(crate) struct BatchEncoder;

impl Encoder for BatchEncoder {
    type Item = EncodedBatch;
    type Error = Status;

    fn encode(&mut self, batch: EncodedBatch, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.reserve(batch.head.len() + batch.tail.len());
        out.put_slice(&batch.head);
        out.put_slice(&batch.tail);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// A buffer a full batch fits in, handed on as soon as it holds one.
fn buffers() -> BufferSettings {
    BufferSettings::new(BATCH_BYTES, BATCH_BYTES)
}

#[derive(Debug)]
pub(crate) struct BatchDecoder<M>(PhantomData<fn() -> M>);

impl<M: Message + Default + 'static> Decoder for BatchDecoder<M> {
    type Item = Vec<M>;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Vec<M>>, Status> {
        let batch = source.copy_to_bytes(source.remaining());
        decode_batch(batch).map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

/// The messages of a batch. Bytes in them are slices of `batch`, not copies.
pub(crate) fn decode_batch<M: Message + Default>(mut batch: Bytes) -> Result<Vec<M>, Status> {
    let mut messages = Vec::new();
    while batch.has_remaining() {
        let (tag, wire_type) = decode_key(&mut batch).map_err(malformed)?;
        if (tag, wire_type) != (MESSAGES_TAG, WireType::LengthDelimited) {
            skip_field(wire_type, tag, &mut batch, DecodeContext::default()).map_err(malformed)?;
            continue;
        }
        let length = decode_varint(&mut batch).map_err(malformed)?;
        if length > batch.len() as u64 {
            return Err(malformed("a message is longer than its batch"));
        }
        if messages.len() == MAX_BATCH_MESSAGES {
            let text = format!("a batch has at most {MAX_BATCH_MESSAGES} messages");
            return Err(Status::out_of_range(text));
        }
        let message = batch.split_to(length as usize);
        messages.push(M::decode(message).map_err(malformed)?);
    }
    Ok(messages)
}

fn malformed(why: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!("a malformed batch: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::proto::{ClientBatch, ClientMessage};
    use tonic::Code;

    #[test]
    fn a_batch_is_its_messages() {
        let messages: Vec<_> =
            (1..4).map(|id| ClientMessage { id, ..ClientMessage::default() }).collect();
        let encoded = ClientBatch { messages: messages.clone() }.encode_to_vec();
        assert_eq!(decode_batch::<ClientMessage>(encoded.into()).unwrap(), messages);
        assert_eq!(decode_batch::<ClientMessage>(Bytes::new()).unwrap(), []);
    }

    #[test]
    fn fields_from_the_future_are_skipped() {
        let mut encoded = vec![0x10, 0x07]; // field 2, varint 7
        encoded.extend(ClientBatch { messages: vec![ClientMessage::default()] }.encode_to_vec());
        assert_eq!(decode_batch::<ClientMessage>(encoded.into()).unwrap().len(), 1);
    }

    #[test]
    fn nonsense_and_too_many_messages_are_refused() {
        let code = |bytes: Vec<u8>| decode_batch::<ClientMessage>(bytes.into()).unwrap_err().code();
        assert_eq!(code(vec![0xff; 11]), Code::InvalidArgument);
        assert_eq!(code(vec![0x0a, 0x05, 0x08]), Code::InvalidArgument);
        assert_eq!(code([0x0a, 0x00].repeat(MAX_BATCH_MESSAGES + 1)), Code::OutOfRange);
    }
}
