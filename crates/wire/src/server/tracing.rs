//! Chooses which messages are traced, and makes their spans.
//!
//! A message is traced if its client requests that. Of the other messages, each session traces one
//! in [`SAMPLED_ONE_IN`], so that a node can show afterwards what was slow.

use std::sync::Arc;

use nacre_telemetry::{Id, OpenSpan, Sampler, Spans, Trace};

use super::Caller;
use super::meter::Kind;
use crate::message::Origin;
use nacre_protocol::proto::client_message::Body as Asked;

/// One message in this many is traced. At a hundred thousand requests a second, this gives a
/// hundred traces a second. They take a thousandth of a core, and the server keeps them for some
/// seconds.
const SAMPLED_ONE_IN: u32 = 1024;

/// The tracing of one session.
pub(crate) struct Tracing {
    spans: Arc<Spans>,
    sampler: Sampler,
}

impl Tracing {
    pub(crate) fn new(spans: &Arc<Spans>) -> Self {
        Self { spans: Arc::clone(spans), sampler: spans.sampler(SAMPLED_ONE_IN) }
    }

    /// The trace of a message; `None` if the message is not traced.
    pub(crate) fn of(&mut self, origin: Origin) -> Option<Trace> {
        match origin.trace_id {
            0 => self.sampler.pick(),
            trace_id => Some(self.spans.join(Id(trace_id), Id(origin.span_id))),
        }
    }
}

/// Begins the span of a message.
pub(crate) fn begin(trace: &Trace, caller: &Caller, asked: &Asked) -> OpenSpan {
    let mut span = trace.begin("message");
    span.field("kind", Kind::of(asked).name());
    span.field("entity", caller.entity().as_str());
    match asked {
        Asked::Request(request) => {
            span.field("object", &*format!("{}/{}", request.pool, request.object));
            span.field("ops", request.ops.len() as u64);
        }
        Asked::Ask(ask) => span.field("ask", &*format!("{}.{}", ask.service, ask.method)),
        _ => {}
    }
    span
}
