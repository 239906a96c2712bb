//! One watch, as its reader sees it: a stream of events that outlives connections.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use futures::Stream;
use nacre_object::{ObjectId, WatchEvent};

use super::shared::Shared;
use crate::limits::MAX_QUEUED_EVENTS;

/// A watch in a session's table.
#[derive(Debug, Clone)]
pub(crate) struct Watching {
    pub(crate) object: ObjectId,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) stage: Stage,
}

/// How far a watch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Asked for the first time. If the connection breaks, whoever asked asks again.
    Asked,
    /// The node watches.
    Live,
    /// It was live before the connection broke. Once it is again, the reader is told that
    /// something may have been missed.
    Broken,
}

impl Watching {
    pub(crate) fn new(object: ObjectId) -> Self {
        Self { object, events: Arc::default(), stage: Stage::Asked }
    }
}

/// Events on their way to a reader. Past the bound they become one `Lost`.
#[derive(Debug, Default)]
pub(crate) struct EventQueue(Mutex<Events>);

#[derive(Debug, Default)]
struct Events {
    waiting: VecDeque<WatchEvent>,
    ended: bool,
    reader: Option<Waker>,
    id: u64,
}

impl EventQueue {
    /// Adds an event.
    pub(crate) fn push(&self, event: WatchEvent) {
        let mut events = self.lock();
        if events.waiting.len() >= MAX_QUEUED_EVENTS {
            events.waiting.clear();
            events.waiting.push_back(WatchEvent::Lost);
        }
        let follows_loss = events.waiting.back() == Some(&WatchEvent::Lost);
        if !(event == WatchEvent::Lost && follows_loss) {
            events.waiting.push_back(event);
        }
        wake(events);
    }

    /// There will be no more.
    pub(crate) fn end(&self) {
        let mut events = self.lock();
        events.ended = true;
        wake(events);
    }

    /// Under which id the session has it.
    pub(crate) fn set_id(&self, id: u64) {
        self.lock().id = id;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        let mut events = self.lock();
        match events.waiting.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if events.ended => Poll::Ready(None),
            None => {
                events.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.0.lock().expect("nothing that holds this lock panics")
    }
}

fn wake(mut events: MutexGuard<'_, Events>) {
    let reader = events.reader.take();
    drop(events);
    if let Some(reader) = reader {
        reader.wake();
    }
}

/// What the reader holds. Dropping it ends the watch.
pub(crate) struct EventStream {
    shared: Arc<Shared>,
    events: Arc<EventQueue>,
}

impl EventStream {
    pub(crate) fn new(shared: Arc<Shared>, events: Arc<EventQueue>) -> Self {
        Self { shared, events }
    }
}

impl Stream for EventStream {
    type Item = WatchEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        self.events.poll(context)
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let id = self.events.lock().id;
        self.shared.unwatch(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::noop_waker;

    fn drain(queue: &EventQueue) -> Vec<WatchEvent> {
        let waker = noop_waker();
        let mut context = Context::from_waker(&waker);
        std::iter::from_fn(|| match queue.poll(&mut context) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn a_reader_that_is_too_slow_is_told_so_once() {
        let queue = EventQueue::default();
        let changed = |version| WatchEvent::Changed { version };
        (0..MAX_QUEUED_EVENTS as u64 + 2).for_each(|version| queue.push(changed(version)));
        let last = MAX_QUEUED_EVENTS as u64;
        assert_eq!(drain(&queue), [WatchEvent::Lost, changed(last), changed(last + 1)]);
        queue.push(WatchEvent::Lost);
        queue.push(WatchEvent::Lost);
        assert_eq!(drain(&queue), [WatchEvent::Lost]);
    }
}
