//! The method `traces` of the service `node`: a node reports the traces that went through it.

use std::sync::Arc;

use bytes::Bytes;
use nacre_object::{Error, Result};
use nacre_telemetry::{Id, Order, Spans};

use crate::node_service::json;

/// The most traces in one list: enough to fill some screens, and about a hundredth of the largest
/// message.
const MAX_LISTED: usize = 100;

/// For the input `recent` or `slow`, returns summaries of traces; for the id of a trace, returns
/// its spans.
///
/// # Errors
/// `Invalid` for any other input.
pub(crate) fn tell(spans: &Arc<Spans>, input: &[u8]) -> Result<Bytes> {
    match std::str::from_utf8(input) {
        Ok("recent") => json(&spans.traces(Order::Recent, MAX_LISTED)),
        Ok("slow") => json(&spans.traces(Order::Slow, MAX_LISTED)),
        Ok(id) => {
            let id: Id = id.parse().map_err(|error| {
                Error::invalid(format!("{error}")).hint("or ask for `recent` or `slow`")
            })?;
            json(&spans.of(id))
        }
        Err(_) => Err(Error::invalid("the input is not a UTF-8 string")),
    }
}
