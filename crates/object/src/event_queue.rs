//! A queue of the events that one watcher has not received yet.
//!
//! **Invariant:** a watcher receives every event in order, or gets [`WatchEvent::Lost`] in place of
//! the events that it missed. A full queue drops all waiting events and keeps one `Lost` instead.
//! The sender never waits.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::WatchEvent;
use crate::limits::{MAX_QUEUED_EVENTS, MAX_QUEUED_NOTIFY_BYTES};

/// The queue of one watcher.
#[derive(Debug, Default)]
pub struct EventQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    events: VecDeque<WatchEvent>,
    /// How many payload bytes the queued notifications have.
    bytes: usize,
    is_closed: bool,
    reader: Option<Waker>,
}

impl EventQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn push(&self, event: WatchEvent) {
        let mut state = self.state();
        let bytes = payload_bytes(&event);
        if state.events.len() >= MAX_QUEUED_EVENTS || state.bytes + bytes > MAX_QUEUED_NOTIFY_BYTES
        {
            state.events.clear();
            state.bytes = 0;
            state.events.push_back(WatchEvent::Lost);
        }
        let repeats_loss =
            event == WatchEvent::Lost && state.events.back() == Some(&WatchEvent::Lost);
        if !repeats_loss {
            state.bytes += bytes;
            state.events.push_back(event);
        }
        wake(state);
    }

    /// Closes the queue: no event follows.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        wake(state);
    }

    /// Takes the next event. Returns `None` once the queue is closed and empty. If there is no
    /// event yet, the queue wakes the task of `context` when one comes.
    pub fn poll(&self, context: &Context<'_>) -> Poll<Option<WatchEvent>> {
        let mut state = self.state();
        match state.events.pop_front() {
            Some(event) => {
                state.bytes -= payload_bytes(&event);
                Poll::Ready(Some(event))
            }
            None if state.is_closed => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn payload_bytes(event: &WatchEvent) -> usize {
    match event {
        WatchEvent::Notified { payload } => payload.len(),
        _ => 0,
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_NOTIFY_BYTES;

    fn heard(queue: &EventQueue) -> Vec<Option<WatchEvent>> {
        let context = Context::from_waker(Waker::noop());
        let next = || match queue.poll(&context) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        };
        let mut ended = false;
        std::iter::from_fn(next)
            .take_while(|event| !std::mem::replace(&mut ended, event.is_none()))
            .collect()
    }

    fn changed(version: u64) -> WatchEvent {
        WatchEvent::Changed { version }
    }

    #[test]
    fn events_come_in_order_and_the_end_comes_last() {
        let queue = EventQueue::default();
        queue.push(changed(1));
        queue.push(changed(2));
        assert_eq!(heard(&queue), [Some(changed(1)), Some(changed(2))]);
        queue.push(changed(3));
        queue.close();
        assert_eq!(heard(&queue), [Some(changed(3)), None]);
    }

    #[test]
    fn a_watcher_that_falls_behind_hears_once_that_it_lost_something() {
        let queue = EventQueue::default();
        let last = MAX_QUEUED_EVENTS as u64;
        (0..=last).for_each(|version| queue.push(changed(version)));
        assert_eq!(heard(&queue), [Some(WatchEvent::Lost), Some(changed(last))]);
        queue.push(WatchEvent::Lost);
        queue.push(WatchEvent::Lost);
        assert_eq!(heard(&queue), [Some(WatchEvent::Lost)]);
    }

    #[test]
    fn the_bytes_of_waiting_notifications_are_bounded() {
        let queue = EventQueue::default();
        let notified = || WatchEvent::Notified { payload: vec![0; MAX_NOTIFY_BYTES].into() };
        let fitting = MAX_QUEUED_NOTIFY_BYTES / MAX_NOTIFY_BYTES;
        (0..fitting).for_each(|_| queue.push(notified()));
        assert_eq!(heard(&queue), vec![Some(notified()); fitting]);
        (0..=fitting).for_each(|_| queue.push(notified()));
        assert_eq!(heard(&queue), [Some(WatchEvent::Lost), Some(notified())]);
    }
}
