//! The wait of one caller for its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::send_budget::Posted;
use super::shared::Shared;
use super::table::End;

/// A future of a call's answer. If it is dropped before the answer comes, it removes the call from
/// the table.
pub(crate) struct Ticket<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) id: u64,
    pub(crate) posted: Posted,
    pub(crate) end: oneshot::Receiver<End>,
    pub(crate) ended: bool,
}

impl Future for Ticket<'_> {
    /// `None` if the session was closed.
    type Output = Option<End>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<End>> {
        let end = Pin::new(&mut self.end).poll(context);
        self.ended = end.is_ready();
        end.map(Result::ok)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.abandon(self.id);
        }
    }
}
