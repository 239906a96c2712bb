//! Following the cluster log.

use async_trait::async_trait;
use futures::Stream;
use nacre_object::Result;

use super::{Event, Events};
use crate::catch_up::{CatchUp, Page};
use crate::follower::{Follower, Source};
use crate::limits::MAX_EVENTS_PAGE;

/// An item that a follower of the cluster log gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventItem {
    /// The event after the last one that the follower got.
    Event(Event),
    /// Events up to this number were missed and are no longer kept.
    Missed {
        /// The last of them.
        through: u64,
    },
}

/// A watcher of the cluster log. It survives every outage of the store.
pub struct EventWatcher {
    follower: Follower<EventLog>,
}

impl EventWatcher {
    pub(super) fn new(events: &Events, sequence: u64) -> Self {
        let log = EventLog { events: events.clone() };
        let (system, object) = (events.system().clone(), Events::object());
        let start = CatchUp::after(sequence);
        Self { follower: Follower::new(start, system, object, log) }
    }

    /// Waits for the next event, and retries while the store does not answer. The caller may drop
    /// the future without losing an event.
    ///
    /// # Errors
    /// Errors that a retry cannot cure, such as `Denied` or `Corrupt`. The caller may call this
    /// again.
    pub async fn next(&mut self) -> Result<EventItem> {
        self.follower.next().await
    }

    /// The same as a stream, which has no end.
    pub fn into_stream(self) -> impl Stream<Item = Result<EventItem>> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            let item = watcher.next().await;
            Some((item, watcher))
        })
    }
}

struct EventLog {
    events: Events,
}

#[async_trait]
impl Source for EventLog {
    type Item = EventItem;

    async fn page(&self, after: u64) -> Result<Page<EventItem>> {
        let page = self.events.read(Some(after), MAX_EVENTS_PAGE).await?;
        let items = page.events.into_iter();
        let items = items.map(|event| (event.sequence, EventItem::Event(event))).collect();
        Ok(Page { last: page.last, items })
    }

    async fn whole(&self) -> Result<(u64, EventItem)> {
        let page = self.events.read(None, 0).await?;
        let through = page.first_kept.saturating_sub(1);
        Ok((through, EventItem::Missed { through }))
    }
}
