//! Watches in memory: one bounded queue a watcher.
//!
//! **Invariant:** a queue that overflows is emptied and holds `Lost` in place of what it held, so a
//! watcher either hears everything in order or hears that it did not.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use nacre_object::{Error, ObjectId, Result, WatchEvent, WatchStream};

/// Events one watcher may be behind by: enough for a burst, little enough to be read at once.
pub const MAX_QUEUED_EVENTS: usize = 1024;
/// Watches of one store: each costs a queue.
pub const MAX_WATCHES: usize = 4096;

/// Who watches what.
#[derive(Debug, Default)]
pub(crate) struct WatchHub {
    queues: BTreeMap<ObjectId, Vec<Weak<Queue>>>,
}

impl WatchHub {
    /// A stream of every event of `object` from now on.
    pub fn watch(&mut self, object: &ObjectId) -> Result<WatchStream> {
        self.queues.retain(|_, queues| {
            queues.retain(|queue| queue.strong_count() > 0);
            !queues.is_empty()
        });
        if self.queues.values().map(Vec::len).sum::<usize>() >= MAX_WATCHES {
            return Err(Error::exhausted(format!("{MAX_WATCHES} watches")).during("watch"));
        }
        let queue = Arc::new(Queue::default());
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

#[derive(Debug, Default)]
struct Queue(Mutex<QueueState>);

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<WatchEvent>,
    closed: bool,
    reader: Option<Waker>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: WatchEvent) {
        let mut state = self.state();
        if state.events.len() >= MAX_QUEUED_EVENTS {
            state.events.clear();
            state.events.push_back(WatchEvent::Lost);
        } else {
            state.events.push_back(event);
        }
        state.wake();
    }

    fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.wake();
    }
}

impl QueueState {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// A watcher's end of its queue.
struct Events(Arc<Queue>);

impl Stream for Events {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let mut state = self.0.state();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
