//! What a client asks of a node.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nacre_object::{Error, Result};

use super::watching::Watching;
use crate::limits::MAX_MESSAGE_BYTES;
use nacre_protocol::proto::client_message::Body as Asked;

/// Whether a call may be sent again when it is not known what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing.
    Safe,
    /// It may have happened, and must not happen twice.
    Unsafe,
}

/// A message to a node that is to be answered.
#[derive(Debug)]
pub(crate) struct Call {
    /// The message's body, encoded: it may be sent more than once.
    pub(crate) body: Bytes,
    pub(crate) trace_id: u64,
    /// How long the caller waits, from when the call is made.
    pub(crate) deadline: Duration,
    pub(crate) repeat: Repeat,
    /// The watch this call asks for, if it asks for one.
    pub(crate) watch: Option<Watching>,
}

impl Call {
    /// A call of this body.
    ///
    /// # Errors
    /// `Invalid` past `MAX_MESSAGE_BYTES`.
    pub(crate) fn new(asked: &Asked, repeat: Repeat, deadline: Duration) -> Result<Self> {
        let body = encode(asked);
        if body.len() > MAX_MESSAGE_BYTES {
            return Err(Error::invalid(format!("a message of {} bytes", body.len()))
                .hint(format!("at most {MAX_MESSAGE_BYTES} bytes fit; split it")));
        }
        Ok(Self { body, trace_id: 0, deadline, repeat, watch: None })
    }
}

/// A message's body, encoded.
pub(crate) fn encode(asked: &Asked) -> Bytes {
    let mut buffer = BytesMut::with_capacity(asked.encoded_len());
    asked.encode(&mut buffer);
    buffer.freeze()
}
