//! Following a bounded, numbered history: the part that waits and reads.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use nacre_object::{ObjectId, Result, WatchEvent, WatchStream};

use crate::backoff::Backoff;
use crate::catch_up::{CatchUp, Page, Step};
use crate::system::{System, is_transient};

/// How long a watcher waits for a notification before it reads without one. A committer may die
/// before it notifies, and notifications may get lost.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A numbered history that can be followed.
#[async_trait]
pub(crate) trait Source: Send + Sync {
    /// What the follower delivers: an item of the history, or the whole state.
    type Item: Send;

    /// The items that a notification carries, if it carries any.
    fn told(&self, _payload: &Bytes) -> Option<Page<Self::Item>> {
        None
    }

    /// The items after a number.
    async fn page(&self, after: u64) -> Result<Page<Self::Item>>;

    /// Reads the whole state, with the number of the last item that it includes.
    async fn whole(&self) -> Result<(u64, Self::Item)>;
}

/// Follows the numbered history that an object keeps.
///
/// The follower begins to watch the object before it reads the object. So it misses no change: it
/// reads the change, or is notified of it later.
pub(crate) struct Follower<S: Source> {
    system: System,
    object: ObjectId,
    source: S,
    core: CatchUp<S::Item>,
    signal: Option<WatchStream>,
    backoff: Backoff,
}

impl<S: Source> Follower<S> {
    /// A follower in this state.
    pub(crate) fn new(core: CatchUp<S::Item>, system: System, object: ObjectId, source: S) -> Self {
        Self { system, object, source, core, signal: None, backoff: Backoff::new() }
    }

    /// Waits for the next item, and retries while the store does not answer. The caller may drop
    /// the future without losing an item.
    pub(crate) async fn next(&mut self) -> Result<S::Item> {
        loop {
            match self.advance().await {
                Ok(Some(item)) => return Ok(item),
                Ok(None) => {}
                Err(error) if is_transient(&error) => self.backoff.wait().await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<S::Item>> {
        if self.signal.is_none() {
            self.signal = Some(self.system.watch(&self.object).await?);
            self.core.stirred();
        }
        match self.core.step() {
            Step::Deliver(item) => return Ok(Some(item)),
            Step::ReadAfter(number) => {
                let page = self.source.page(number).await?;
                self.core.page(page);
                self.backoff.reset();
            }
            Step::ReadWhole => {
                let (number, whole) = self.source.whole().await?;
                self.core.whole(number, whole);
                self.backoff.reset();
            }
            Step::Wait => self.wait_for_signal().await,
        }
        Ok(None)
    }

    async fn wait_for_signal(&mut self) {
        let Some(signal) = &mut self.signal else { return };
        match tokio::time::timeout(LOOK_AGAIN, signal.next()).await {
            Err(_) => self.core.stirred(),
            Ok(None) => {
                // The store has closed the stream. Watch the object again after a pause.
                self.core.stirred();
                self.signal = None;
                self.backoff.wait().await;
            }
            Ok(Some(first)) => {
                // One read is enough for all notifications so far.
                let more = std::iter::from_fn(|| signal.next().now_or_never().flatten());
                let heard: Vec<_> = std::iter::once(first).chain(more).collect();
                heard.iter().for_each(|event| self.hear(event));
            }
        }
    }

    fn hear(&mut self, event: &WatchEvent) {
        let told = match event {
            WatchEvent::Notified { payload } => self.source.told(payload),
            WatchEvent::Changed { .. } | WatchEvent::Lost => None,
        };
        match told {
            Some(page) => self.core.told(page),
            None => self.core.stirred(),
        }
    }
}
