//! What the watchers of a map were told, and what they are told next: pure.

use bytes::Bytes;
use prost::Message;

use super::MapEvent;
use super::format::{HistoryReply, PageRequest};
use crate::catch_up::Page;
use crate::limits::MAX_HISTORY_PAGE;

/// Up to which epoch they were told; nobody knows at first.
#[derive(Debug, Default)]
pub(crate) struct Tidings {
    told: Option<u64>,
}

impl Tidings {
    /// They need not be told of epochs up to this one.
    pub(crate) fn known_to(&mut self, epoch: u64) {
        self.told = Some(epoch);
    }

    /// What to ask the map's history for.
    pub(super) fn question(&self) -> Option<PageRequest> {
        self.told.map(|after| PageRequest { after, limit: MAX_HISTORY_PAGE as u32 })
    }

    /// What to tell them of its answer: nothing if it is longer than that.
    pub(super) fn answered(&mut self, reply: HistoryReply, max_bytes: usize) -> Bytes {
        self.told = Some(reply.epoch);
        let fits = reply.encoded_len() <= max_bytes;
        if fits { Bytes::from(reply.encode_to_vec()) } else { Bytes::new() }
    }
}

/// What a watcher was told; `None` if only that something changed.
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
