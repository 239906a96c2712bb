//! Sends changes and notifications to watchers. A slow watcher never delays a shard.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::{Context, Poll};

use futures::Stream;
use nacre_object::{Error, EventQueue, ObjectId, Result, WatchEvent, WatchStream};

use crate::transaction::queue::closed;

/// The most watches of one engine. Each costs a queue.
pub const MAX_WATCHES: usize = 4096;

/// All watches of an engine.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    by_object: RwLock<Watched>,
    /// Lets commits skip the watchers while there are none.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Watched {
    queues: HashMap<ObjectId, Vec<Weak<EventQueue>>>,
    count: usize,
    is_closed: bool,
}

impl Watchers {
    /// Starts a watch.
    ///
    /// # Errors
    /// `Exhausted` if there are `MAX_WATCHES` watches, `Unavailable` once the engine is closed.
    pub fn watch(self: &Arc<Self>, object: &ObjectId) -> Result<WatchStream> {
        let mut watched = self.by_object.write().unwrap_or_else(PoisonError::into_inner);
        if watched.is_closed {
            return Err(closed());
        }
        if watched.count >= MAX_WATCHES {
            return Err(Error::exhausted(format!(
                "there are already {MAX_WATCHES} watches, the most there can be"
            ))
            .hint("end watches that are no longer needed"));
        }
        let queue = Arc::new(EventQueue::default());
        watched.queues.entry(object.clone()).or_default().push(Arc::downgrade(&queue));
        watched.count += 1;
        self.any.store(true, Ordering::Release);
        let (watchers, object) = (Arc::clone(self), object.clone());
        Ok(Box::pin(Events { queue, watchers, object }))
    }

    /// Tells everybody who watches the object.
    pub fn tell(&self, object: &ObjectId, event: &WatchEvent) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let watched = self.by_object.read().unwrap_or_else(PoisonError::into_inner);
        for queue in watched.queues.get(object).into_iter().flatten().filter_map(Weak::upgrade) {
            queue.push(event.clone());
        }
    }

    fn forget(&self, object: &ObjectId) {
        let mut watched = self.by_object.write().unwrap_or_else(PoisonError::into_inner);
        watched.count -= 1;
        if let Some(queues) = watched.queues.get_mut(object) {
            queues.retain(|queue| queue.strong_count() > 0);
            if queues.is_empty() {
                watched.queues.remove(object);
            }
        }
        self.any.store(watched.count > 0, Ordering::Release);
    }

    /// Ends every watch.
    pub fn close(&self) {
        let mut watched = self.by_object.write().unwrap_or_else(PoisonError::into_inner);
        watched.is_closed = true;
        for queue in watched.queues.values().flatten().filter_map(Weak::upgrade) {
            queue.close();
        }
    }
}

/// A watcher's stream of events. The watch ends when it is dropped.
struct Events {
    queue: Arc<EventQueue>,
    watchers: Arc<Watchers>,
    object: ObjectId,
}

impl Stream for Events {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.queue.poll(context)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Only a queue without an owner is forgotten, so this watch drops its queue first.
        self.queue = Arc::default();
        self.watchers.forget(&self.object);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    fn next(stream: &mut WatchStream) -> Option<Option<WatchEvent>> {
        stream.next().now_or_never()
    }

    #[test]
    fn dropped_watches_are_forgotten_and_closing_ends_the_rest() {
        let watchers = Arc::new(Watchers::default());
        let object: ObjectId = "p/a".parse().unwrap();
        for _ in 0..MAX_WATCHES * 2 {
            drop(watchers.watch(&object).unwrap());
        }
        let mut stream = watchers.watch(&object).unwrap();
        watchers.close();
        assert_eq!(next(&mut stream), Some(None));
        assert!(watchers.watch(&object).is_err());
    }
}
