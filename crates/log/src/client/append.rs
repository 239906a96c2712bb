//! An append in flight: the record, its permits, and the caller that waits.

use bytes::Bytes;
use nacre_object::{Error, Result};
use nacre_telemetry::OpenSpan;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::core::AppendCore;
use crate::record::RecordId;

/// The permits of one append in flight: one for the append, and one for each byte of its record. A
/// log handle has a fixed number of both kinds, which bounds its appends in flight.
pub(super) type Permits = [OwnedSemaphorePermit; 2];

/// One append in flight.
#[derive(Debug)]
pub(super) struct Append {
    pub core: AppendCore,
    pub id: RecordId,
    /// The record as it will be stored.
    pub entry: Bytes,
    pub deadline: Instant,
    /// The span from the start of the append to its end, if the caller is traced.
    pub span: Option<OpenSpan>,
    answer: oneshot::Sender<Result<u64>>,
    _permits: Permits,
}

impl Append {
    pub fn new(
        id: RecordId,
        entry: Bytes,
        deadline: Instant,
        permits: Permits,
    ) -> (Self, oneshot::Receiver<Result<u64>>) {
        let (answer, answered) = oneshot::channel();
        let (core, span) = (AppendCore::default(), OpenSpan::here("append"));
        (Self { core, id, entry, deadline, span, answer, _permits: permits }, answered)
    }

    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// A span for records that are sent together. Its parent is the span of the first traced
    /// record. `None` if no record is traced.
    pub fn span_of<'a>(
        name: &'static str,
        records: impl ExactSizeIterator<Item = &'a Self>,
    ) -> Option<OpenSpan> {
        let count = records.len() as u64;
        let first = { records }.find_map(|record| record.span.as_ref())?;
        let mut span = first.trace().begin(name);
        span.field("records", count);
        Some(span)
    }

    /// Ends the append. Its caller may no longer wait.
    pub fn end(mut self, result: Result<u64>) {
        if let (Some(mut span), Ok(position)) = (self.span.take(), &result) {
            span.field("position", *position);
        }
        let _nobody_listens = self.answer.send(result);
    }

    /// Ends the append with this error. If the record may be in the log in spite of the error, adds
    /// that to the error.
    pub fn fail(self, cause: &Error) {
        let error = match self.core.doubtful_position() {
            Some(position) => Error::unavailable(format!(
                "the record may be in the log, at {position}, or not: {cause}"
            ))
            .hint("read that position when its target is back, to find out"),
            None => cause.clone().during("append"),
        };
        self.end(Err(error));
    }

    /// Ends it for want of time.
    pub fn fail_late(self) {
        self.fail(&Error::unavailable("the record could not be appended in time"));
    }
}
