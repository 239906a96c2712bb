//! Messages as they come in: looked through before they are decoded.

use bytes::{Buf, Bytes};
use nacre_object::Error;
use nacre_object::limits::{MAX_OPS, MAX_REQUEST_KEYS};
use nacre_protocol::proto::{ClientMessage, ServerMessage};
use nacre_protocol::unfold::{Outline, Unfolded, outline};
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

use crate::codec::malformed;
use crate::limits::{MAX_UNDER_WAY, MAX_UNDER_WAY_BYTES};

/// How much one message may contain.
const MOST: Unfolded = Unfolded { ops: MAX_OPS, keys: MAX_REQUEST_KEYS };

/// Messages shorter than this cannot exceed any bound, so they are decoded without a check. The
/// check would add a fiftieth to the time of a request.
const SHORT_BYTES: usize = 256;

const _: () = assert!(SHORT_BYTES <= MAX_OPS);
const _: () = assert!(
    MAX_UNDER_WAY * (SHORT_BYTES + Unfolded::most_bytes(SHORT_BYTES)) <= MAX_UNDER_WAY_BYTES
);

/// A message of a client.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message within the bounds, and the bytes that it takes in memory.
    Message(ClientMessage, usize),
    /// A message that was not decoded, because it would exceed a bound.
    Refused(u64, Error),
}

impl Received {
    /// Decodes a message. The byte strings in it are slices of `bytes`.
    pub(crate) fn decode(bytes: Bytes) -> Result<Self, Status> {
        if bytes.len() < SHORT_BYTES {
            let taken = bytes.len() + Unfolded::most_bytes(bytes.len());
            return Ok(Self::Message(decode(bytes)?, taken));
        }
        let Outline { id, unfolded } = outline(&bytes, MOST);
        let length = bytes.len();
        match unfolded {
            Ok(unfolded) => Ok(Self::Message(decode(bytes)?, length + unfolded.bytes())),
            Err(error) => Ok(Self::Refused(id, error)),
        }
    }
}

fn decode(bytes: Bytes) -> Result<ClientMessage, Status> {
    ClientMessage::decode(bytes).map_err(malformed)
}

/// Receives single messages, answers with others.
#[derive(Debug, Default)]
pub(crate) struct CallCodec(ProstCodec<ServerMessage, ClientMessage>);

impl Codec for CallCodec {
    type Encode = ServerMessage;
    type Decode = Received;
    type Encoder = <ProstCodec<ServerMessage, ClientMessage> as Codec>::Encoder;
    type Decoder = CallDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> CallDecoder {
        CallDecoder
    }
}

#[derive(Debug)]
pub(crate) struct CallDecoder;

impl Decoder for CallDecoder {
    type Item = Received;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Received>, Status> {
        Received::decode(source.copy_to_bytes(source.remaining())).map(Some)
    }
}
