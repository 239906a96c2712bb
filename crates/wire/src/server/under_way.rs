//! A message that was begun and is not answered yet.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use nacre_object::{ObjectId, WatchStream};
use tokio::time::{Sleep, sleep};

use super::meter::Begun;
use nacre_protocol::proto::server_message::Body as Answer;

/// The result of a message's work.
pub(crate) struct Outcome {
    /// The answer for the client.
    pub(crate) answer: Answer,
    /// The watch the message asked for.
    pub(crate) watch: Option<Watched>,
}

/// The events of an object.
pub(crate) struct Watched {
    pub(crate) object: ObjectId,
    pub(crate) events: WatchStream,
}

/// The work of a message.
pub(crate) struct Work {
    pub(crate) future: BoxFuture<'static, Outcome>,
    /// Whether the work changes nothing, so that it may end when its client is gone.
    pub(crate) only_reads: bool,
}

/// A message in flight and its work. The client waits for a limited time, but work that changes
/// something runs to its end.
pub(crate) struct UnderWay {
    /// The message that is to be answered; `None` once the client no longer waits.
    id: Option<(u64, Begun)>,
    patience: Option<Pin<Box<Sleep>>>,
    work: Option<BoxFuture<'static, Outcome>>,
    /// Whether nothing changes by it.
    pub(crate) only_reads: bool,
    /// The message's size in memory.
    bytes: usize,
}

/// The result of polling a message in flight. If its work has ended, the result has the message's
/// size in bytes.
pub(crate) enum Progress {
    /// It is answered.
    Finished(u64, Begun, Outcome, usize),
    /// The client no longer waits for message `id`. If the work changes something, it goes on as
    /// this `UnderWay`. Any other work has been dropped, and this is the message's size in bytes.
    Late(u64, Begun, Result<UnderWay, usize>),
    /// Work without a waiting client has ended.
    Unheard(usize),
}

impl UnderWay {
    /// Work for message `id`, whose client waits for `timeout`.
    pub(crate) fn new(
        id: u64,
        begun: Begun,
        timeout: Option<Duration>,
        Work { future, only_reads }: Work,
        bytes: usize,
    ) -> Self {
        let patience = timeout.map(|timeout| Box::pin(sleep(timeout)));
        Self { id: Some((id, begun)), patience, work: Some(future), only_reads, bytes }
    }
}

impl Future for UnderWay {
    type Output = Progress;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Progress> {
        let work = self.work.as_mut().expect("not polled after the end");
        if let Poll::Ready(outcome) = work.as_mut().poll(context) {
            let bytes = self.bytes;
            let heard = self.id.map(|(id, begun)| Progress::Finished(id, begun, outcome, bytes));
            return Poll::Ready(heard.unwrap_or(Progress::Unheard(bytes)));
        }
        let expired = match &mut self.patience {
            Some(patience) => patience.as_mut().poll(context).is_ready(),
            None => false,
        };
        if expired && let (Some((id, begun)), work @ Some(_)) = (self.id, self.work.take()) {
            let Self { only_reads, bytes, .. } = *self;
            let unheard = match only_reads {
                true => Err(bytes),
                false => Ok(Self { id: None, patience: None, work, only_reads, bytes }),
            };
            return Poll::Ready(Progress::Late(id, begun, unheard));
        }
        Poll::Pending
    }
}
