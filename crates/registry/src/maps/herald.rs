//! Tells watchers of a map what changed, where the map is kept: one reading for all of them.
//!
//! Whoever watches a map hears that it changed and reads what it lacks of the history; of a hundred
//! watchers these are a hundred questions with one answer. A node has the layer `Herald` before
//! its store, which reads the history when the map changes and notifies its watchers of what it found,
//! as `history` answers it. Only of the [`COMMON_MAPS`]: a watch outlives the right to read.
//!
//! **Invariant:** a watcher hears of every change after it happened, with what changed or without: then
//! it reads, as it does if what it was told does not follow on what it knows.

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

use super::handle::{MAP_CLASS, MAP_OBJECT_PREFIX};
use super::tidings::Tidings;
use super::{COMMON_MAPS, format};
use crate::system::System;

/// What a watcher may leave unheard; past it, it is told that it lost some. Together at most 4 MiB a
/// map.
const MAX_UNHEARD: usize = 64;

/// The watch of a node's store, which tells watchers of common maps what changed. A clone is another
/// handle on the same.
#[derive(Clone)]
pub struct Herald(Arc<Inner>);

struct Inner {
    system: System,
    next: Stack,
    /// By the map's object, once somebody watched it; as many as there are common maps.
    voices: Mutex<HashMap<ObjectId, broadcast::Sender<WatchEvent>>>,
}

impl fmt::Debug for Herald {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Herald").field("system", &self.0.system).finish_non_exhaustive()
    }
}

impl Herald {
    /// The herald of a store, which it asks on nobody's behalf.
    pub fn new(next: Stack) -> Self {
        let system = System::new(next.as_store(), next.as_watch());
        Self(Arc::new(Inner { system, next, voices: Mutex::default() }))
    }

    async fn watch_once(&self, object: &ObjectId) -> Result<WatchStream> {
        let mut voices = self.0.voices.lock().await;
        if let Some(voice) = voices.get(object) {
            return Ok(heard(voice.subscribe()));
        }
        let changes = self.0.next.watch(object).await?;
        let (voice, listener) = broadcast::channel(MAX_UNHEARD);
        voices.insert(object.clone(), voice.clone());
        tokio::spawn(tell(Arc::downgrade(&self.0), object.clone(), changes, voice));
        Ok(heard(listener))
    }
}

/// Whether anybody may read the map that an object keeps.
fn is_common(object: &ObjectId) -> bool {
    let map = object.name.as_str().strip_prefix(MAP_OBJECT_PREFIX);
    object.pool == PoolName::system() && map.is_some_and(|map| COMMON_MAPS.contains(&map))
}

impl Layer for Herald {
    fn next(&self) -> &Stack {
        &self.0.next
    }

    fn watch<'a>(&'a self, object: &'a ObjectId) -> BoxFuture<'a, Result<WatchStream>> {
        match is_common(object) {
            true => self.watch_once(object).boxed(),
            false => self.0.next.watch(object),
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

/// Tells all who watch an object what happens to it, until the store closes.
async fn tell(
    herald: Weak<Inner>,
    object: ObjectId,
    mut changes: WatchStream,
    voice: broadcast::Sender<WatchEvent>,
) {
    let mut tidings = Tidings::default();
    if let Some(inner) = herald.upgrade() {
        inner.catch_up(&object, &mut tidings).await;
    }
    while let Some(mut event) = changes.next().await {
        // One reading answers everything that happened so far.
        while let Some(Some(next)) = changes.next().now_or_never() {
            event = if event == WatchEvent::Lost { event } else { next };
        }
        let Some(inner) = herald.upgrade() else { return };
        if voice.receiver_count() == 0 {
            tidings = Tidings::default();
            continue;
        }
        let told = match event {
            WatchEvent::Lost => event,
            _ => WatchEvent::Notified { payload: inner.news(&object, &mut tidings).await },
        };
        // Whoever listened may be gone meanwhile.
        let _ = voice.send(told);
    }
    if let Some(inner) = herald.upgrade() {
        inner.voices.lock().await.remove(&object);
    }
}

impl Inner {
    /// What changed since it was last told, as a notification carries it; nothing if that is not known.
    async fn news(&self, object: &ObjectId, tidings: &mut Tidings) -> Bytes {
        let Some(question) = tidings.question() else {
            self.catch_up(object, tidings).await;
            return Bytes::new();
        };
        match self.system.call(object, MAP_CLASS, "history", &question).await {
            Ok(reply) => tidings.answered(reply, MAX_NOTIFY_BYTES),
            Err(_) => {
                *tidings = Tidings::default();
                Bytes::new()
            }
        }
    }

    /// Finds out from where on to tell what changed. If nobody answers the next change is told as one.
    async fn catch_up(&self, object: &ObjectId, tidings: &mut Tidings) {
        // No entry has an empty key.
        let question = format::GetRequest { key: Some(String::new()) };
        let reply = self.system.call(object, MAP_CLASS, "get", &question).await;
        if let Ok(format::GetReply { epoch, .. }) = reply {
            tidings.known_to(epoch);
        }
    }
}
