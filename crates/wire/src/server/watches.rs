//! The watches of one session.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::{AbortHandle, BoxStream, SelectAll, Stream, abortable, once};
use nacre_object::{Error, ObjectId, Result, WatchEvent};

use super::under_way::Watched;
use crate::limits::MAX_WATCHES;

/// The id of a watch and its next event; the event is `None` if the watch has ended.
type Told = (u64, Option<WatchEvent>);

/// The watches of one session, by the id of the message that asked for each.
#[derive(Default)]
pub(crate) struct Watches {
    states: HashMap<u64, State>,
    events: SelectAll<BoxStream<'static, Told>>,
}

enum State {
    /// The watch was requested but is not established.
    Beginning,
    /// There.
    Live(AbortHandle, ObjectId),
}

impl Watches {
    /// Reserves a slot for a watch that is being established.
    ///
    /// # Errors
    /// `Exhausted` if the session has `MAX_WATCHES` watches, `Invalid` if there is a watch with
    /// this id already.
    pub(crate) fn begin(&mut self, id: u64) -> Result<()> {
        if self.states.contains_key(&id) {
            return Err(Error::invalid(format!(
                "the session already has a watch with the id {id}"
            ))
            .hint("give every message of a session its own id"));
        }
        if self.states.len() >= MAX_WATCHES {
            return Err(Error::exhausted(format!(
                "the session already has {MAX_WATCHES} watches, the most it can have"
            ))
            .hint("end some watches, or open another session"));
        }
        self.states.insert(id, State::Beginning);
        Ok(())
    }

    /// Notes that the store watches now. If the client ended the watch meanwhile, drops it at once.
    pub(crate) fn establish(&mut self, id: u64, Watched { object, events }: Watched) {
        let Some(state) = self.states.get_mut(&id) else { return };
        let end = once(std::future::ready((id, None)));
        // A store that panics over a watch ends that watch.
        let stream = AssertUnwindSafe(events)
            .catch_unwind()
            .take_while(|event| std::future::ready(event.is_ok()))
            .filter_map(|event| std::future::ready(event.ok()));
        let (events, handle) = abortable(stream.map(move |event| (id, Some(event))).chain(end));
        *state = State::Live(handle, object);
        self.events.push(events.boxed());
    }

    /// The watch is over.
    pub(crate) fn end(&mut self, id: u64) {
        if let Some(State::Live(handle, _)) = self.states.remove(&id) {
            handle.abort();
        }
    }

    /// The watched object; `None` if the watch is not established.
    pub(crate) fn object(&self, id: u64) -> Option<&ObjectId> {
        match self.states.get(&id)? {
            State::Live(_, object) => Some(object),
            State::Beginning => None,
        }
    }

    /// All are over.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Polls for the next event of any watch. Also pending if there are no watches.
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Told> {
        match Pin::new(&mut self.events).poll_next(context) {
            Poll::Ready(Some((id, event))) => {
                if event.is_none() {
                    self.states.remove(&id);
                }
                Poll::Ready((id, event))
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}
