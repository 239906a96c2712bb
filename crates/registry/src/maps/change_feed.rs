//! A layer that sends the changes of a map to its watchers, so that they need not read the map's
//! history themselves.
//!
//! Without this layer a notification only says that the map has changed. A hundred watchers would
//! then read the same history records. A node puts this layer before its store. When a map changes,
//! the layer reads the history once and sends the records to all watchers, in the format of a reply
//! of `history`.
//!
//! To watch a map and to read its history, an entity needs the same right. A session checks this
//! right again before it sends each notification. So a notification says no more than the client
//! may read.
//!
//! **Invariant:** a watcher is notified after every change, with or without the change's records.
//! If it lacks records, the watcher reads them itself.
//!
//! **Invariant:** a watcher gets no content of other senders' notifications. They only make the
//! layer read the history.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nacre_object::limits::MAX_NOTIFY_BYTES;
use nacre_object::{Layer, ObjectId, PoolName, Result, Stack, Watch, WatchEvent, WatchStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast};

use super::feed_state::FeedState;
use super::handle::{MAP_CLASS, MAP_OBJECT_PREFIX};
use super::{COMMON_MAPS, format};
use crate::system::System;

/// How many notifications may wait for a slow watcher. If more wait, some are dropped and the
/// watcher learns of it. The waiting notifications of a common map take at most 4 MiB.
const MAX_UNHEARD: usize = 64;
/// The most bytes of a notification of a map that is not common. There may be thousands of such
/// maps; the waiting notifications of one take at most 256 KiB. Watchers read longer records
/// themselves.
const MAX_OTHER_NOTIFY_BYTES: usize = 4096;

/// The layer that sends watchers of maps their changes. Clones are handles to the same
/// layer.
#[derive(Clone)]
pub struct ChangeFeed(Arc<Inner>);

struct Inner {
    system: System,
    next: Stack,
    /// The notifications for the watchers of each map, by the map's object. Only maps that are
    /// watched have an entry.
    feeds: Mutex<HashMap<ObjectId, broadcast::Sender<WatchEvent>>>,
}

impl fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeFeed").field("system", &self.0.system).finish_non_exhaustive()
    }
}

impl ChangeFeed {
    /// The change feed of a store. It reads the store on its own behalf.
    pub fn new(next: Stack) -> Self {
        let system = System::new(next.as_store(), next.as_watch());
        Self(Arc::new(Inner { system, next, feeds: Mutex::default() }))
    }

    async fn watch_once(&self, object: &ObjectId) -> Result<WatchStream> {
        let mut feeds = self.0.feeds.lock().await;
        if let Some(feed) = feeds.get(object) {
            return Ok(heard(feed.subscribe()));
        }
        let changes = self.0.next.watch(object).await?;
        let (feed, listener) = broadcast::channel(MAX_UNHEARD);
        feeds.insert(object.clone(), feed.clone());
        tokio::spawn(tell(Arc::downgrade(&self.0), object.clone(), changes, feed));
        Ok(heard(listener))
    }
}

/// The map that an object keeps.
fn map_of(object: &ObjectId) -> Option<&str> {
    let is_system = object.pool == PoolName::system();
    object.name.as_str().strip_prefix(MAP_OBJECT_PREFIX).filter(|_| is_system)
}

/// The most bytes of a notification of this object's map.
fn max_bytes(object: &ObjectId) -> usize {
    match map_of(object).is_some_and(|map| COMMON_MAPS.contains(&map)) {
        true => MAX_NOTIFY_BYTES,
        false => MAX_OTHER_NOTIFY_BYTES,
    }
}

impl Layer for ChangeFeed {
    fn next(&self) -> &Stack {
        &self.0.next
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        match map_of(object) {
            Some(_) => self.watch_once(object).boxed(),
            None => self.0.next.watch(object),
        }
    }
}

fn heard(listener: broadcast::Receiver<WatchEvent>) -> WatchStream {
    Box::pin(futures::stream::unfold(listener, |mut listener| async move {
        match listener.recv().await {
            Ok(event) => Some((event, listener)),
            Err(RecvError::Lagged(_)) => Some((WatchEvent::Lost, listener)),
            Err(RecvError::Closed) => None,
        }
    }))
}

/// Sends all watchers of an object its changes, until the last watcher leaves or the store closes.
async fn tell(
    layer: Weak<Inner>,
    object: ObjectId,
    mut changes: WatchStream,
    feed: broadcast::Sender<WatchEvent>,
) {
    let mut state = FeedState::default();
    if let Some(inner) = layer.upgrade() {
        inner.catch_up(&object, &mut state).await;
    }
    loop {
        let mut event = tokio::select! {
            event = changes.next() => match event {
                Some(event) => event,
                None => break,
            },
            () = feed.closed() => {
                let Some(inner) = layer.upgrade() else { return };
                if inner.end_without_watchers(&object, &feed).await {
                    return;
                }
                continue;
            }
        };
        // One read covers all changes so far.
        while let Some(Some(next)) = changes.next().now_or_never() {
            event = if event == WatchEvent::Lost { event } else { next };
        }
        let Some(inner) = layer.upgrade() else { return };
        let told = match event {
            WatchEvent::Lost => event,
            _ => WatchEvent::Notified { payload: inner.news(&object, &mut state).await },
        };
        // It is no error if there are no watchers left.
        let _ = feed.send(told);
    }
    if let Some(inner) = layer.upgrade() {
        inner.feeds.lock().await.remove(&object);
    }
}

impl Inner {
    /// Ends the feed of an object, unless somebody has begun to watch the object again. Returns
    /// whether it ended.
    async fn end_without_watchers(
        &self,
        object: &ObjectId,
        feed: &broadcast::Sender<WatchEvent>,
    ) -> bool {
        // No watch begins while this holds the lock.
        let mut feeds = self.feeds.lock().await;
        let is_unwatched = feed.receiver_count() == 0;
        if is_unwatched {
            feeds.remove(object);
        }
        is_unwatched
    }

    /// Returns a notification with the changes since the last notification. Returns an empty
    /// notification if the layer does not know which epoch it sent last.
    async fn news(&self, object: &ObjectId, state: &mut FeedState) -> Bytes {
        let Some(question) = state.question() else {
            self.catch_up(object, state).await;
            return Bytes::new();
        };
        match self.system.call(object, MAP_CLASS, "history", &question).await {
            Ok(reply) => state.answered(reply, max_bytes(object)),
            Err(_) => {
                *state = FeedState::default();
                Bytes::new()
            }
        }
    }

    /// Reads the map's epoch, so that the next notification can carry the changes after this epoch.
    /// If the store does not answer, the next notification carries no changes.
    async fn catch_up(&self, object: &ObjectId, state: &mut FeedState) {
        // No entry has an empty key.
        let question = format::GetRequest { key: Some(String::new()) };
        let reply = self.system.call(object, MAP_CLASS, "get", &question).await;
        if let Ok(format::GetReply { epoch, .. }) = reply {
            state.known_to(epoch);
        }
    }
}
