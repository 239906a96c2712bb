//! Remembers which epochs of a map the change feed has sent to watchers, and decides what it sends
//! next. This module does no IO.

use bytes::Bytes;
use prost::Message;

use super::MapEvent;
use super::format::{HistoryReply, PageRequest};
use crate::catch_up::Page;
use crate::limits::MAX_HISTORY_PAGE;

/// The last epoch that the watchers were sent; unknown at first.
#[derive(Debug, Default)]
pub(crate) struct FeedState {
    told: Option<u64>,
}

impl FeedState {
    /// The watchers need not be sent epochs up to this one.
    pub(crate) fn known_to(&mut self, epoch: u64) {
        self.told = Some(epoch);
    }

    /// The question to the map's history.
    pub(super) fn question(&self) -> Option<PageRequest> {
        self.told.map(|after| PageRequest { after, limit: MAX_HISTORY_PAGE as u32 })
    }

    /// The notification that carries the answer of the history. Empty if the answer is longer than
    /// `max_bytes`.
    pub(super) fn answered(&mut self, reply: HistoryReply, max_bytes: usize) -> Bytes {
        self.told = Some(reply.epoch);
        let fits = reply.encoded_len() <= max_bytes;
        if fits { Bytes::from(reply.encode_to_vec()) } else { Bytes::new() }
    }
}

/// The changes in a notification; `None` if it says only that something changed.
pub(super) fn told(payload: &Bytes) -> Option<(HistoryReply, Page<MapEvent>)> {
    if payload.is_empty() {
        return None;
    }
    let mut reply = HistoryReply::decode(payload.clone()).ok()?;
    let records = std::mem::take(&mut reply.records).into_iter();
    let items = records.map(|record| {
        let epoch = record.epoch;
        Some((epoch, MapEvent::Epoch(record.try_into().ok()?)))
    });
    let items = items.collect::<Option<_>>()?;
    let page = Page { last: reply.epoch, items };
    Some((reply, page))
}
