//! Decides when the server ends a session whose client does not read.
//!
//! The timeout starts when too many bytes of replies wait for the client, and starts again with
//! every message that the client reads. So a slow reader keeps its session, and a client that reads
//! nothing loses it.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// The timeout of a client while too many bytes wait for it.
#[derive(Debug, Default)]
pub(crate) struct Stall(Option<Running>);

#[derive(Debug)]
struct Running {
    /// Messages the client had taken when the time began.
    taken: u64,
    over: Pin<Box<Sleep>>,
}

impl Stall {
    /// Stops the time, because few enough bytes wait for the client again.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }

    /// Whether the client has read nothing for `timeout`. `taken` is how many messages it has read
    /// so far. If the answer is no, wakes the task of `context` when the timeout may have passed.
    pub(crate) fn is_too_long(
        &mut self,
        taken: u64,
        timeout: Duration,
        context: &mut Context<'_>,
    ) -> bool {
        let begin = || Running { taken, over: Box::pin(sleep(timeout)) };
        let running = self.0.get_or_insert_with(begin);
        if running.taken != taken {
            running.taken = taken;
            running.over.set(sleep(timeout));
        }
        running.over.as_mut().poll(context).is_ready()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    const NEVER: Duration = Duration::from_secs(1_000_000);

    async fn is_too_long(stall: &mut Stall, taken: u64, timeout: Duration) -> bool {
        poll_fn(|context| Poll::Ready(stall.is_too_long(taken, timeout, context))).await
    }

    async fn until_too_long(stall: &mut Stall, taken: u64, timeout: Duration) {
        poll_fn(|context| match stall.is_too_long(taken, timeout, context) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    #[tokio::test]
    async fn reading_a_reply_gives_a_client_the_whole_timeout_again() {
        let mut stall = Stall::default();
        until_too_long(&mut stall, 1, Duration::ZERO).await;
        assert!(!is_too_long(&mut stall, 2, NEVER).await, "it took something");
        assert!(!is_too_long(&mut stall, 2, Duration::ZERO).await, "the time that was begun runs");
        until_too_long(&mut stall, 3, Duration::ZERO).await;
        assert!(is_too_long(&mut stall, 3, NEVER).await, "it took nothing more");
        stall.end();
        assert!(!is_too_long(&mut stall, 3, NEVER).await, "it had read enough");
    }
}
