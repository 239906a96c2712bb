//! Watches in memory: one bounded queue a watcher.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::Stream;
use nacre_object::{Error, EventQueue, ObjectId, Result, WatchEvent, WatchStream};

/// Watches of one store: each costs a queue.
pub const MAX_WATCHES: usize = 4096;

/// Who watches what.
#[derive(Debug, Default)]
pub(crate) struct WatchHub {
    queues: BTreeMap<ObjectId, Vec<Weak<EventQueue>>>,
}

impl WatchHub {
    /// A stream of every event of `object` from now on.
    pub fn watch(&mut self, object: &ObjectId) -> Result<WatchStream> {
        self.queues.retain(|_, queues| {
            queues.retain(|queue| queue.strong_count() > 0);
            !queues.is_empty()
        });
        if self.queues.values().map(Vec::len).sum::<usize>() >= MAX_WATCHES {
            return Err(Error::exhausted(format!(
                "there are already {MAX_WATCHES} watches, the most there can be"
            ))
            .during("watch"));
        }
        let queue = Arc::new(EventQueue::default());
        self.queues.entry(object.clone()).or_default().push(Arc::downgrade(&queue));
        Ok(Box::pin(Events(queue)))
    }

    /// Tells every watcher of `object`.
    pub fn tell(&self, object: &ObjectId, event: &WatchEvent) {
        for queue in self.queues.get(object).into_iter().flatten().filter_map(Weak::upgrade) {
            queue.push(event.clone());
        }
    }
}

impl Drop for WatchHub {
    fn drop(&mut self) {
        for queue in self.queues.values().flatten().filter_map(Weak::upgrade) {
            queue.close();
        }
    }
}

/// A watcher's end of its queue.
struct Events(Arc<EventQueue>);

impl Stream for Events {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.0.poll(context)
    }
}
