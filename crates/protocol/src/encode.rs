//! Converts nacre's types to the protocol's. This cannot fail, because every valid value has an
//! encoding.

use nacre_object::{
    Error, ErrorKind, ListPage, ListRequest, MapEntry, MapRange, Op, OpResult, Reply, Request,
    WatchEvent,
};

use crate::proto as pb;
use crate::proto::op::Op as PbOp;
use crate::proto::op_result::Result as PbResult;
use crate::proto::server_message::Body as Answer;

/// Encodes a transaction, without the entity, which the client cannot choose.
pub fn request(request: Request) -> pb::ObjectRequest {
    let header = request.header;
    pb::ObjectRequest {
        pool: header.object.pool.to_string(),
        object: header.object.name.to_string(),
        snapshot: header.snapshot.map(|snapshot| snapshot.to_string()).unwrap_or_default(),
        ops: ops(request.ops),
    }
}

/// Encodes the ops of a transaction.
pub fn ops(ops: Vec<Op>) -> Vec<pb::Op> {
    ops.into_iter().map(|each| pb::Op { op: Some(op(each)) }).collect()
}

fn op(op: Op) -> PbOp {
    match op {
        Op::AssertExists => PbOp::AssertExists(pb::op::AssertExists {}),
        Op::AssertAbsent => PbOp::AssertAbsent(pb::op::AssertAbsent {}),
        Op::AssertVersion(version) => PbOp::AssertVersion(version),
        Op::Create { exclusive } => PbOp::Create(pb::op::Create { exclusive }),
        Op::Remove => PbOp::Remove(pb::op::Remove {}),
        Op::Stat => PbOp::Stat(pb::op::Stat {}),
        Op::Read { offset, length } => PbOp::Read(pb::op::Read { offset, length }),
        Op::Write { offset, data } => PbOp::Write(pb::op::Write { offset, data }),
        Op::WriteFull { data } => PbOp::WriteFull(data),
        Op::Append { data } => PbOp::Append(data),
        Op::Truncate { size } => PbOp::Truncate(size),
        Op::Zero { offset, length } => PbOp::Zero(pb::op::Zero { offset, length }),
        Op::GetAttribute { name } => PbOp::GetAttribute(name),
        Op::GetAttributes => PbOp::GetAttributes(pb::op::GetAttributes {}),
        Op::SetAttribute { name, value } => PbOp::SetAttribute(pb::Attribute { name, value }),
        Op::RemoveAttribute { name } => PbOp::RemoveAttribute(name),
        Op::MapGet { keys } => PbOp::MapGet(pb::op::Keys { keys }),
        Op::MapSet { entries } => PbOp::MapSet(pb::op::MapEntries { entries: map(entries) }),
        Op::MapRemove { keys } => PbOp::MapRemove(pb::op::Keys { keys }),
        Op::MapRange { after, prefix, limit } => {
            PbOp::MapRange(pb::op::MapRange { after, prefix, limit })
        }
        Op::MapClear => PbOp::MapClear(pb::op::MapClear {}),
        Op::MapGetHeader => PbOp::MapGetHeader(pb::op::MapGetHeader {}),
        Op::MapSetHeader { value } => PbOp::MapSetHeader(value),
        Op::SnapshotCreate { snapshot } => PbOp::SnapshotCreate(snapshot.to_string()),
        Op::SnapshotRemove { snapshot } => PbOp::SnapshotRemove(snapshot.to_string()),
        Op::SnapshotList => PbOp::SnapshotList(pb::op::SnapshotList {}),
        Op::Rollback { snapshot } => PbOp::Rollback(snapshot.to_string()),
        Op::CloneFrom { source, snapshot } => PbOp::CloneFrom(pb::op::CloneFrom {
            source: source.to_string(),
            snapshot: snapshot.to_string(),
        }),
        Op::WriteFullFrom { source, snapshot } => PbOp::WriteFullFrom(pb::op::CloneFrom {
            source: source.to_string(),
            snapshot: snapshot.to_string(),
        }),
        Op::Call(call) => PbOp::Call(pb::op::ClassCall {
            class_name: call.class.to_string(),
            method: call.method.to_string(),
            version: call.version,
            input: call.input,
        }),
    }
}

/// Encodes the reply to a transaction.
pub fn reply(reply: Reply) -> pb::ObjectReply {
    let results = reply.results.into_iter();
    pb::ObjectReply {
        version: reply.version,
        results: results.map(|each| pb::OpResult { result: Some(result(each)) }).collect(),
    }
}

fn result(result: OpResult) -> PbResult {
    match result {
        OpResult::Done => PbResult::Done(pb::op_result::OpDone {}),
        OpResult::Stat(stat) => PbResult::Stat(pb::op_result::ObjectStat {
            size: stat.size,
            modified_micros: stat.modified_micros,
            version: stat.version,
        }),
        OpResult::Data(data) => PbResult::Data(data),
        OpResult::Offset(offset) => PbResult::Offset(offset),
        OpResult::Attributes(all) => {
            let attributes = all.into_iter().map(|(name, value)| pb::Attribute { name, value });
            PbResult::Attributes(pb::op_result::Attributes { attributes: attributes.collect() })
        }
        OpResult::Values(values) => {
            let values = values.into_iter().map(|value| pb::op_result::Value { value });
            PbResult::Values(pb::op_result::Values { values: values.collect() })
        }
        OpResult::Range(MapRange { entries, more }) => {
            PbResult::Range(pb::op_result::MapPage { entries: map(entries), more })
        }
        OpResult::Snapshots(names) => PbResult::Snapshots(pb::op_result::Snapshots {
            snapshots: names.iter().map(ToString::to_string).collect(),
        }),
        OpResult::Called(reply) => PbResult::Called(pb::op_result::CallReply {
            status: reply.status,
            output: reply.output,
        }),
    }
}

fn map(entries: Vec<MapEntry>) -> Vec<pb::MapEntry> {
    entries.into_iter().map(|MapEntry { key, value }| pb::MapEntry { key, value }).collect()
}

/// Encodes a request to list names. A limit above that of any page is cut.
pub fn list_request(request: ListRequest) -> pb::ListRequest {
    pb::ListRequest {
        pool: request.pool.to_string(),
        after: request.after.map(|name| name.to_string()).unwrap_or_default(),
        prefix: request.prefix,
        limit: u32::try_from(request.limit).unwrap_or(u32::MAX),
    }
}

/// A page of names.
pub fn list_page(page: ListPage) -> pb::ListPage {
    pb::ListPage { names: page.names.iter().map(ToString::to_string).collect(), more: page.more }
}

/// Encodes an event of a watch.
pub fn watch_event(event: WatchEvent) -> pb::WatchEvent {
    use pb::watch_event::{Changed, Event, Lost, Notified};
    let event = match event {
        WatchEvent::Changed { version } => Event::Changed(Changed { version }),
        WatchEvent::Notified { payload } => Event::Notified(Notified { payload }),
        WatchEvent::Lost => Event::Lost(Lost {}),
    };
    pb::WatchEvent { event: Some(event) }
}

/// The last event of a watch.
pub fn watch_ended() -> pb::WatchEvent {
    use pb::watch_event::{Ended, Event};
    pb::WatchEvent { event: Some(Event::Ended(Ended {})) }
}

/// An error as the answer to a message.
pub fn failure(failed: &Error) -> Answer {
    Answer::Error(Box::new(error(failed)))
}

/// An error, with all it knows.
pub fn error(error: &Error) -> pb::Error {
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    pb::Error {
        kind: kind(error.kind()).into(),
        message: error.message().to_owned(),
        operation: text(error.operation()),
        object: text(error.object()),
        hint: text(error.hint_text()),
        status: error.has_own_status().then(|| error.status()),
        fault: error.fault().map(|site| pb::FaultSite {
            program: site.program.clone(),
            version: site.version,
            line: site.line.unwrap_or(0),
            traceback: site.traceback.clone(),
        }),
        target: error.target().map(ToString::to_string).unwrap_or_default(),
    }
}

fn kind(kind: ErrorKind) -> pb::ErrorKind {
    match kind {
        ErrorKind::NotFound => pb::ErrorKind::NotFound,
        ErrorKind::Exists => pb::ErrorKind::Exists,
        ErrorKind::Invalid => pb::ErrorKind::Invalid,
        ErrorKind::Stale => pb::ErrorKind::Stale,
        ErrorKind::Conflict => pb::ErrorKind::Conflict,
        ErrorKind::Denied => pb::ErrorKind::Denied,
        ErrorKind::Exhausted => pb::ErrorKind::Exhausted,
        ErrorKind::Unavailable => pb::ErrorKind::Unavailable,
        ErrorKind::Unsupported => pb::ErrorKind::Unsupported,
        ErrorKind::Corrupt => pb::ErrorKind::Corrupt,
        ErrorKind::Fault => pb::ErrorKind::Fault,
    }
}
