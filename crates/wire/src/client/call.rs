//! One call of a client: its message and its deadline.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use nacre_object::{Error, Result};
use nacre_telemetry::{OpenSpan, Trace};

use super::watching::Watching;
use crate::limits::MAX_MESSAGE_BYTES;
use crate::message::Origin;
use nacre_protocol::proto::ClientMessage;
use nacre_protocol::proto::client_message::Body as Asked;
use prost::Message;

/// Whether a call may be sent again when its outcome is not known.
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
    /// The encoded body of the message. The call keeps the body, because the session may have to
    /// send it more than once.
    pub(crate) body: Bytes,
    pub(crate) origin: Origin,
    /// From when the call is made until it is over.
    _span: Option<OpenSpan>,
    /// How long the caller waits, from when the call is made.
    pub(crate) deadline: Duration,
    pub(crate) repeat: Repeat,
    /// The watch this call asks for, if it asks for one.
    pub(crate) watch: Option<Watching>,
}

impl Call {
    /// Makes a call with this body. The call belongs to the current trace, or to the trace
    /// `sampled` if there is no current trace.
    ///
    /// # Errors
    /// `Invalid` if the body is longer than `MAX_MESSAGE_BYTES`.
    pub(crate) fn new(
        asked: &Asked,
        repeat: Repeat,
        deadline: Duration,
        sampled: Option<Trace>,
    ) -> Result<Self> {
        let body = encode(asked);
        if body.len() > MAX_MESSAGE_BYTES {
            return Err(Error::invalid(format!("a message of {} bytes is too long", body.len()))
                .hint(format!("at most {MAX_MESSAGE_BYTES} bytes fit; split it")));
        }
        let span = span_of(asked, body.len(), sampled);
        let origin = span.as_ref().map(origin_below).unwrap_or_default();
        Ok(Self { body, origin, _span: span, deadline, repeat, watch: None })
    }
}

impl Call {
    /// Decodes the name of the pool in the call; `None` if the call names no pool. Only calls that
    /// wait for a link with a stated speed need it.
    pub(crate) fn pool(&self) -> Option<String> {
        match ClientMessage::decode(self.body.clone()).ok()?.body? {
            Asked::Request(request) => Some(request.pool),
            Asked::List(list) => Some(list.pool),
            Asked::Notify(notify) => Some(notify.pool),
            _ => None,
        }
    }
}

/// The span of a call, if it is traced.
fn span_of(asked: &Asked, bytes: usize, sampled: Option<Trace>) -> Option<OpenSpan> {
    let mut span = Trace::current().or(sampled)?.begin("session");
    span.field("bytes", bytes as u64);
    if let Asked::Ask(ask) = asked {
        span.field("ask", &*format!("{}.{}", ask.service, ask.method));
    }
    Some(span)
}

fn origin_below(span: &OpenSpan) -> Origin {
    let trace = span.trace();
    Origin { trace_id: trace.id().0, span_id: trace.parent().0 }
}

/// A message's body, encoded.
pub(crate) fn encode(asked: &Asked) -> Bytes {
    let mut buffer = BytesMut::with_capacity(asked.encoded_len());
    asked.encode(&mut buffer);
    buffer.freeze()
}
