//! Inputs and outputs of the class `map`, for simulations that transport them by themselves.

use bytes::Bytes;
use nacre_object::MapName;
use nacre_object::limits::MAX_NOTIFY_BYTES;
use prost::Message;

use super::format::{
    ChangeMessage, CommitReply, CommitRequest, GetReply, GetRequest, HistoryReply, PageRequest,
};
use super::{Change, EntryGuard, FeedState, MapEvent, MapState, feed_state};
use crate::catch_up::Page;
use crate::limits::MAX_HISTORY_PAGE;

fn encoded(message: &impl Message) -> Bytes {
    Bytes::from(message.encode_to_vec())
}

/// The input of `commit`, at an epoch.
pub(crate) fn commit(map: &str, expected: u64, changes: &[Change], id: u64) -> Bytes {
    let request = request(map, changes, id);
    encoded(&CommitRequest { expected_epoch: Some(expected), ..request })
}

/// The input of `commit`, guarded by an entry.
pub(crate) fn guarded_commit(map: &str, guard: EntryGuard, changes: &[Change], id: u64) -> Bytes {
    encoded(&CommitRequest { guard: Some(guard.into()), ..request(map, changes, id) })
}

/// The same commit with nothing to hold it back.
pub(crate) fn unguarded_commit(input: Bytes) -> Bytes {
    let request = CommitRequest::decode(input).expect("an input of commit");
    encoded(&CommitRequest { guard: None, ..request })
}

fn request(map: &str, changes: &[Change], id: u64) -> CommitRequest {
    CommitRequest {
        changes: changes.iter().cloned().map(ChangeMessage::from).collect(),
        commit_id: Bytes::copy_from_slice(&id.to_be_bytes()),
        map: map.to_owned(),
        ..CommitRequest::default()
    }
}

/// The same commit under another id, so that the class does not recognise it.
pub(crate) fn renamed_commit(input: Bytes, id: u64) -> Bytes {
    let request = CommitRequest::decode(input).expect("an input of commit");
    encoded(&CommitRequest { commit_id: Bytes::copy_from_slice(&id.to_be_bytes()), ..request })
}

/// The epoch that a commit began.
pub(crate) fn epoch_begun(output: Bytes) -> u64 {
    CommitReply::decode(output).expect("an output of commit").epoch
}

/// The input of `get` for the whole.
pub(crate) fn get() -> Bytes {
    encoded(&GetRequest { key: None })
}

/// The whole.
pub(crate) fn whole(map: &str, output: Bytes) -> MapState {
    let reply = GetReply::decode(output).expect("an output of get");
    let entries = reply.entries.into_iter();
    MapState {
        name: MapName::new(map).expect("a map of the simulation"),
        epoch: reply.epoch,
        entries: entries.map(|entry| (entry.key, entry.value.unwrap_or_default())).collect(),
    }
}

/// The input of `history`.
pub(crate) fn history(after: u64) -> Bytes {
    encoded(&PageRequest { after, limit: MAX_HISTORY_PAGE as u32 })
}

/// A page of history, as if the map kept only the newest `kept` epochs.
pub(crate) fn page(output: Bytes, kept: u64) -> Page<MapEvent> {
    let reply = HistoryReply::decode(output).expect("an output of history");
    let records = reply.records.into_iter().filter(|record| record.epoch + kept > reply.epoch);
    let items = records.map(|record| {
        let epoch = record.epoch;
        (epoch, MapEvent::Epoch(record.try_into().expect("a record of the simulation")))
    });
    Page { last: reply.epoch, items: items.collect() }
}

/// The page that watchers get, as if the map kept only the newest `kept` epochs.
pub(crate) fn told(payload: &Bytes, kept: u64) -> Option<Page<MapEvent>> {
    let (_, mut page) = feed_state::told(payload)?;
    page.items.retain(|(epoch, _)| epoch + kept > page.last);
    Some(page)
}

impl FeedState {
    /// The input of `history` that asks for the changes to send next.
    pub(crate) fn input(&self) -> Option<Bytes> {
        self.question().map(|question| encoded(&question))
    }

    /// The notification to send for the output of `history`.
    pub(crate) fn told_of(&mut self, output: Bytes) -> Bytes {
        let reply = HistoryReply::decode(output).expect("an output of history");
        self.answered(reply, MAX_NOTIFY_BYTES)
    }
}
