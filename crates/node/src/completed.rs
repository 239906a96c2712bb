//! `Completed`: a future that runs to its end even if its caller drops it.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;

/// A future that, once polled, runs to its end even if its caller drops it: the rest then runs in a
/// task of its own. Requests that other requests wait for are such futures.
pub(crate) struct Completed<T: Send + 'static> {
    running: Option<BoxFuture<'static, T>>,
    has_begun: bool,
}

impl<T: Send + 'static> Completed<T> {
    pub fn of(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { running: Some(future.boxed()), has_begun: false }
    }
}

impl<T: Send + 'static> Future for Completed<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.has_begun = true;
        let Some(running) = &mut self.running else { return Poll::Pending };
        let polled = running.as_mut().poll(context);
        if polled.is_ready() {
            self.running = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Completed<T> {
    fn drop(&mut self) {
        let rest = self.running.take().filter(|_| self.has_begun);
        // Without a runtime the process ends.
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_future_that_was_begun_ends_although_its_caller_drops_it() {
        let (go, gone) = oneshot::channel::<()>();
        let (done, ended) = oneshot::channel();
        let mut begun = Completed::of(async move {
            gone.await.unwrap();
            done.send(7).unwrap();
        });
        assert!(poll!(&mut begun).is_pending());
        drop(begun);
        go.send(()).unwrap();
        assert_eq!(ended.await, Ok(7));
    }

    #[tokio::test]
    async fn a_future_that_was_not_begun_is_dropped() {
        let (done, ended) = oneshot::channel::<()>();
        drop(Completed::of(async move { done.send(()).unwrap() }));
        assert!(ended.await.is_err());
    }
}
