//! The inputs, outputs and stored values of the class `map`, as protocol-buffer messages. Fields
//! may be added, but never renumbered. The map's object holds:
//!
//! | key | value |
//! | --- | --- |
//! | (the header) | [`Head`] |
//! | `e/` and an entry's key | the entry's value |
//! | `h/` and an epoch (8 bytes, big-endian) | the [`Record`] of that epoch, if the history keeps it |
//! | `o/` and a sequence number (8 bytes, big-endian) | a [`Trigger`] that waits to be carried out |
//! | `t/` and the name of another map | [`Watermark`]: the newest trigger of that map that was committed here |
//! | `p/source` | the source of the bound program |
//!
//! **Invariant:** one transaction writes the head, entries, record and triggers of a commit.

use bytes::Bytes;
use nacre_object::{EntityName, Error, MapName, Result};
use prost::Message;

use super::own::log_of_map;
use super::{Change, EntryGuard, EpochRecord, Origin};

/// The version of this layout. A head with a greater one is `Unsupported`.
pub(super) const FORMAT: u32 = 1;

/// The map's counters, in the header of the object's map.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Head {
    #[prost(uint32, tag = "1")]
    pub format: u32,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    /// The oldest epoch in the history; `epoch + 1` if it is empty.
    #[prost(uint64, tag = "3")]
    pub first_kept: u64,
    #[prost(uint64, tag = "4")]
    pub history_bytes: u64,
    #[prost(uint64, tag = "5")]
    pub entries: u64,
    /// Keys and values together.
    #[prost(uint64, tag = "6")]
    pub entry_bytes: u64,
    /// The number of the last trigger recorded, ever.
    #[prost(uint64, tag = "7")]
    pub last_trigger: u64,
    #[prost(uint64, tag = "8")]
    pub pending_triggers: u64,
    #[prost(message, optional, tag = "9")]
    pub program: Option<BoundProgram>,
    /// Binds of an older activation than this are ignored.
    #[prost(uint64, tag = "10")]
    pub activation: u64,
    /// If the map is deleted: the id of the deletion, never empty.
    #[prost(bytes = "bytes", tag = "11")]
    pub deletion_id: Bytes,
}

/// The program that decides about commits.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BoundProgram {
    #[prost(uint64, tag = "1")]
    pub version: u64,
    /// SHA-256 of the source, in hexadecimal.
    #[prost(string, tag = "2")]
    pub digest: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChangeMessage {
    #[prost(string, tag = "1")]
    pub key: String,
    /// Absent: remove the key.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub value: Option<Bytes>,
}

/// One epoch.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    #[prost(message, repeated, tag = "2")]
    pub changes: Vec<ChangeMessage>,
    #[prost(string, tag = "3")]
    pub author: String,
    #[prost(uint64, tag = "4")]
    pub at_micros: u64,
    /// By which a committer recognises its own commit.
    #[prost(bytes = "bytes", tag = "5")]
    pub commit_id: Bytes,
    #[prost(message, optional, tag = "6")]
    pub origin: Option<OriginMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OriginMessage {
    /// The maps of the chain, beginning with the map of the first commit.
    #[prost(string, repeated, tag = "1")]
    pub chain: Vec<String>,
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
}

/// A commit of another map that is to be carried out.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trigger {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    #[prost(string, tag = "2")]
    pub map: String,
    #[prost(message, repeated, tag = "3")]
    pub changes: Vec<ChangeMessage>,
    /// The maps whose commits led to this trigger. The last is the map that keeps the trigger.
    #[prost(string, repeated, tag = "4")]
    pub chain: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Watermark {
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// The epoch that trigger began here.
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
}

/// Input of `commit`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CommitRequest {
    /// Absent: whatever the epoch is.
    #[prost(uint64, optional, tag = "1")]
    pub expected_epoch: Option<u64>,
    #[prost(message, repeated, tag = "2")]
    pub changes: Vec<ChangeMessage>,
    #[prost(bytes = "bytes", tag = "3")]
    pub commit_id: Bytes,
    #[prost(message, optional, tag = "4")]
    pub origin: Option<OriginMessage>,
    /// The map's name, for its program.
    #[prost(string, tag = "5")]
    pub map: String,
    /// Absent: whatever the entries are.
    #[prost(message, optional, tag = "6")]
    pub guard: Option<GuardMessage>,
}

/// An entry as a committer knows it, which its commit changes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GuardMessage {
    #[prost(string, tag = "1")]
    pub key: String,
    /// Absent: it is not there.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub known: Option<Bytes>,
}

impl From<EntryGuard> for GuardMessage {
    fn from(EntryGuard { key, known }: EntryGuard) -> Self {
        Self { key, known }
    }
}

/// Output of `commit`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CommitReply {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    #[prost(uint64, tag = "2")]
    pub pending_triggers: u64,
}

/// Input of `delete`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRequest {
    /// Absent: whatever the epoch is.
    #[prost(uint64, optional, tag = "1")]
    pub expected_epoch: Option<u64>,
    /// The id by which a caller recognises its own deletion of the map.
    #[prost(bytes = "bytes", tag = "2")]
    pub commit_id: Bytes,
    /// The map's name.
    #[prost(string, tag = "3")]
    pub map: String,
}

/// Output of `delete`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteReply {
    /// The epoch that the deletion began.
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
}

/// Input of `get`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetRequest {
    /// Only this entry; absent for all.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
}

/// Output of `get`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GetReply {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    /// As in a commit that would make the map from nothing.
    #[prost(message, repeated, tag = "2")]
    pub entries: Vec<ChangeMessage>,
    #[prost(uint64, tag = "3")]
    pub pending_triggers: u64,
    #[prost(message, optional, tag = "4")]
    pub program: Option<BoundProgram>,
    /// Whether the map is deleted.
    #[prost(bool, tag = "5")]
    pub is_deleted: bool,
}

/// Input of `history` and of `triggers`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PageRequest {
    /// Exclusive.
    #[prost(uint64, tag = "1")]
    pub after: u64,
    #[prost(uint32, tag = "2")]
    pub limit: u32,
}

/// Output of `history`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HistoryReply {
    #[prost(uint64, tag = "1")]
    pub epoch: u64,
    #[prost(uint64, tag = "2")]
    pub first_kept: u64,
    #[prost(message, repeated, tag = "3")]
    pub records: Vec<Record>,
    #[prost(uint64, tag = "4")]
    pub pending_triggers: u64,
}

/// Output of `triggers`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TriggersReply {
    #[prost(message, repeated, tag = "1")]
    pub triggers: Vec<Trigger>,
}

/// Input of `triggers-done`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TriggersDoneRequest {
    /// Every trigger up to this number has been carried out.
    #[prost(uint64, tag = "1")]
    pub through: u64,
}

/// Input of `bind`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BindRequest {
    /// Absent: no program any more.
    #[prost(message, optional, tag = "1")]
    pub program: Option<BoundProgram>,
    #[prost(string, tag = "2")]
    pub source: String,
    /// Which activation this is: greater ones win.
    #[prost(uint64, tag = "3")]
    pub activation: u64,
}

/// Output of `bind`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BindReply {
    /// An activation as new as this is not bound yet.
    #[prost(bool, tag = "1")]
    pub is_pending: bool,
}

/// Output of methods that answer nothing.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

impl From<Change> for ChangeMessage {
    fn from(change: Change) -> Self {
        match change {
            Change::Set { key, value } => Self { key, value: Some(value) },
            Change::Remove { key } => Self { key, value: None },
        }
    }
}

impl From<ChangeMessage> for Change {
    fn from(message: ChangeMessage) -> Self {
        match message.value {
            Some(value) => Self::Set { key: message.key, value },
            None => Self::Remove { key: message.key },
        }
    }
}

impl TryFrom<OriginMessage> for Origin {
    type Error = Error;

    fn try_from(message: OriginMessage) -> Result<Self> {
        let chain = message.chain.iter().map(MapName::new).collect::<Result<_>>()?;
        Ok(Self { chain, sequence: message.sequence })
    }
}

impl TryFrom<Record> for EpochRecord {
    type Error = Error;

    fn try_from(record: Record) -> Result<Self> {
        Ok(Self {
            epoch: record.epoch,
            changes: record.changes.into_iter().map(Change::from).collect(),
            author: EntityName::new(&record.author)?,
            at_micros: record.at_micros,
            origin: record.origin.map(Origin::try_from).transpose()?,
        })
    }
}

/// What a commit changes, for the check of rights, which happens outside of the map's object.
pub(crate) struct CommitKeys {
    /// The keys it changes.
    pub(crate) keys: Vec<String>,
    /// The map that the commit names. The map's program is told this name, and triggers are
    /// numbered separately for each name.
    pub(crate) map: String,
    /// Whether the commit says that another map's program triggered it.
    pub(crate) triggered: bool,
    /// Whether the commit removes a log: it deletes the view in a log's map, or replaces it by a
    /// view that marks the log as removed.
    pub(crate) removes_log: bool,
}

/// Reads from the input of `commit` what the commit changes. Returns `None` if the bytes are not an
/// input of `commit`.
pub(crate) fn commit_keys(input: &[u8]) -> Option<CommitKeys> {
    let request = CommitRequest::decode(input).ok()?;
    let is_of_log = log_of_map(&request.map).is_some();
    let removes_log = is_of_log && request.changes.iter().any(removes_log);
    let keys = request.changes.into_iter().map(|change| change.key).collect();
    let triggered = request.origin.is_some();
    Some(CommitKeys { keys, map: request.map, triggered, removes_log })
}

/// Whether a change to a log's map deletes the log's view, or replaces it by a view that marks the
/// log as removed.
fn removes_log(change: &ChangeMessage) -> bool {
    /// All that matters of a view.
    #[derive(serde::Deserialize)]
    struct Removal {
        removed: bool,
    }
    match &change.value {
        None => true,
        Some(view) => serde_json::from_slice(view).is_ok_and(|view: Removal| view.removed),
    }
}

/// Reads the map's name from the input of `delete`. `None` if the bytes are no such input.
pub(crate) fn deleted_map(input: &[u8]) -> Option<String> {
    DeleteRequest::decode(input).ok().map(|request| request.map)
}

/// A commit that changes these keys, for tests of others.
#[cfg(test)]
pub(crate) fn commit_input(map: &str, keys: &[&str]) -> Bytes {
    let change = |key: &&str| ChangeMessage { key: (*key).to_owned(), value: Some(Bytes::new()) };
    let (map, changes) = (map.to_owned(), keys.iter().map(change).collect());
    Bytes::from(CommitRequest { map, changes, ..CommitRequest::default() }.encode_to_vec())
}

/// The input of a commit that sets a log's view in its map, or removes the view if `view` is
/// `None`. Tests of other modules use it.
#[cfg(test)]
pub(crate) fn log_commit_input(log: &str, view: Option<&'static str>) -> Bytes {
    let change = ChangeMessage { key: "view".to_owned(), value: view.map(Bytes::from) };
    let (map, changes) = (format!("log.{log}"), vec![change]);
    Bytes::from(CommitRequest { map, changes, ..CommitRequest::default() }.encode_to_vec())
}

/// The deletion of a map, for tests of others.
#[cfg(test)]
pub(crate) fn deletion_input(map: &str) -> Bytes {
    let (map, commit_id) = (map.to_owned(), Bytes::from_static(b"id"));
    Bytes::from(DeleteRequest { map, commit_id, expected_epoch: None }.encode_to_vec())
}

/// A commit that says that another map triggered it. For tests in other modules.
#[cfg(test)]
pub(crate) fn triggered_commit_input(map: &str) -> Bytes {
    let origin = Some(OriginMessage { chain: vec!["a".to_owned()], sequence: 1 });
    let map = map.to_owned();
    Bytes::from(CommitRequest { map, origin, ..CommitRequest::default() }.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of a stored map in format 1. If this test fails, nacre can no longer read the maps
    /// that are already stored.
    #[test]
    fn a_stored_sample_of_format_1_can_still_be_read() {
        let program = Some(BoundProgram { version: 2, digest: "d".into() });
        let head = Head {
            format: 1,
            epoch: 5,
            first_kept: 3,
            history_bytes: 70,
            entries: 1,
            entry_bytes: 2,
            last_trigger: 4,
            pending_triggers: 1,
            program,
            activation: 9,
            deletion_id: Bytes::new(),
        };
        let stored = b"\x08\x01\x10\x05\x18\x03\x20\x46\x28\x01\x30\x02\x38\x04\x40\x01\
                       \x4a\x05\x08\x02\x12\x01d\x50\x09";
        assert_eq!(Head::decode(&stored[..]).unwrap(), head);
        assert_eq!(head.encode_to_vec(), stored);

        let record = Record {
            epoch: 5,
            changes: vec![Change::set("k", "v").into(), Change::remove("r").into()],
            author: "a".into(),
            at_micros: 7,
            commit_id: Bytes::from_static(b"id"),
            origin: Some(OriginMessage { chain: vec!["m".into()], sequence: 6 }),
        };
        let stored = b"\x08\x05\x12\x06\x0a\x01k\x12\x01v\x12\x03\x0a\x01r\x1a\x01a\x20\x07\
                       \x2a\x02id\x32\x05\x0a\x01m\x10\x06";
        assert_eq!(Record::decode(&stored[..]).unwrap(), record);
        assert_eq!(record.encode_to_vec(), stored);
    }
}
