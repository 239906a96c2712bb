//! What one watcher has yet to hear.
//!
//! **Invariant:** a queue that overflows is emptied and holds `Lost` in place of what it held.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nacre_object::WatchEvent;

/// Events one watcher may be behind by: a burst of notifications fits.
pub const MAX_QUEUED_EVENTS: usize = 1024;

/// The queue of one watcher.
#[derive(Debug, Default)]
pub struct EventQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    events: VecDeque<WatchEvent>,
    reader: Option<Waker>,
}

impl EventQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn push(&self, event: WatchEvent) {
        let mut state = self.state();
        if state.events.len() >= MAX_QUEUED_EVENTS {
            state.events.clear();
            state.events.push_back(WatchEvent::Lost);
        } else {
            state.events.push_back(event);
        }
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// Takes the next event, or sees to it that its coming is told.
    pub fn poll(&self, context: &Context<'_>) -> Poll<WatchEvent> {
        let mut state = self.state();
        match state.events.pop_front() {
            Some(event) => Poll::Ready(event),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
