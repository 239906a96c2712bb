//! Watching a map.

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use nacre_object::{MapName, Result};

use super::handle::Maps;
use super::{MapEvent, MapState, feed_state};
use crate::catch_up::{CatchUp, Page};
use crate::follower::{Follower, Source};
use crate::limits::MAX_HISTORY_PAGE;

/// A watcher of a map. It gets every epoch in order. If it missed epochs that the history no longer
/// keeps, it gets the whole map instead.
///
/// The watcher survives outages of the store: it retries until the store answers.
pub struct MapWatcher {
    follower: Follower<MapHistory>,
}

impl MapWatcher {
    pub(super) fn new(maps: &Maps, name: &MapName, start: CatchUp<MapEvent>) -> Self {
        let history = MapHistory { maps: maps.clone(), name: name.clone() };
        let object = Maps::object(name);
        Self { follower: Follower::new(start, maps.system().clone(), object, history) }
    }

    /// Waits for the next event, and retries while the store does not answer. The caller may drop
    /// the future without losing an event.
    ///
    /// # Errors
    /// Errors that a retry cannot cure, such as `Denied` or `Corrupt`. The caller may call this
    /// again.
    pub async fn next(&mut self) -> Result<MapEvent> {
        self.follower.next().await
    }

    /// The same as a stream, which has no end.
    pub fn into_stream(self) -> impl Stream<Item = Result<MapEvent>> + Send {
        futures::stream::unfold(self, |mut watcher| async move {
            let event = watcher.next().await;
            Some((event, watcher))
        })
    }
}

struct MapHistory {
    maps: Maps,
    name: MapName,
}

#[async_trait]
impl Source for MapHistory {
    type Item = MapEvent;

    /// Returns the changes in a notification. They come from the node's
    /// [`ChangeFeed`](crate::ChangeFeed), which passes on no content of other senders.
    fn told(&self, payload: &Bytes) -> Option<Page<MapEvent>> {
        let (reply, page) = feed_state::told(payload)?;
        self.maps.note_triggers(&self.name, reply.pending_triggers);
        Some(page)
    }

    async fn page(&self, after: u64) -> Result<Page<MapEvent>> {
        let history = self.maps.history(&self.name, after, MAX_HISTORY_PAGE).await?;
        let items = history.records.into_iter();
        let items = items.map(|record| (record.epoch, MapEvent::Epoch(record))).collect();
        Ok(Page { last: history.epoch, items })
    }

    async fn whole(&self) -> Result<(u64, MapEvent)> {
        let state: MapState = self.maps.get(&self.name).await?;
        Ok((state.epoch, MapEvent::Whole(state)))
    }
}
