//! Converts the protocol's types to nacre's types, and checks everything that was received.
//!
//! **Invariant:** every value that leaves this module is well formed and within the bounds of
//! `nacre_object::limits`. If a client's message is malformed, the error is `Invalid` and says what
//! is wrong. If a node's answer is malformed, the error is `Corrupt`, because no retry would help.

use bytes::Bytes;
use nacre_object::limits::{MAX_IDENTIFIER_BYTES, MAX_OBJECT_NAME_BYTES};
use nacre_object::{
    CallReply, ClassCall, ClassName, Error, ErrorKind, FaultSite, ListPage, ListRequest, MapEntry,
    MapRange, MethodName, ObjectId, ObjectName, ObjectStat, Op, OpResult, PoolName, Reply, Request,
    Result, SnapshotName, TargetName, WatchEvent,
};

use crate::proto as pb;
use crate::proto::op::Op as PbOp;
use crate::proto::op_result::Result as PbResult;

/// A transaction. Its identity is left to the session.
pub fn request(message: pb::ObjectRequest) -> Result<Request> {
    let id = object(&message.pool, &message.object)?;
    let ops = ops(message.ops).map_err(|error| error.on(&id))?;
    let request = Request::new(id, ops)?;
    match message.snapshot.as_str() {
        "" => Ok(request),
        snapshot => Ok(request.at_snapshot(SnapshotName::new(snapshot)?)),
    }
}

/// Decodes the ops of a transaction. The caller checks their number and size.
pub fn ops(messages: Vec<pb::Op>) -> Result<Vec<Op>> {
    messages.into_iter().map(op).collect()
}

/// An object's name.
pub fn object(pool: &str, name: &str) -> Result<ObjectId> {
    Ok(ObjectId::new(PoolName::new(pool)?, ObjectName::new(name)?))
}

fn op(message: pb::Op) -> Result<Op> {
    let Some(op) = message.op else {
        return Err(Error::unsupported("the node does not know this op")
            .hint("the client speaks a newer protocol: upgrade the node"));
    };
    Ok(match op {
        PbOp::AssertExists(_) => Op::AssertExists,
        PbOp::AssertAbsent(_) => Op::AssertAbsent,
        PbOp::AssertVersion(version) => Op::AssertVersion(version),
        PbOp::Create(create) => Op::Create { exclusive: create.exclusive },
        PbOp::Remove(_) => Op::Remove,
        PbOp::Stat(_) => Op::Stat,
        PbOp::Read(read) => Op::Read { offset: read.offset, length: read.length },
        PbOp::Write(write) => Op::Write { offset: write.offset, data: write.data },
        PbOp::WriteFull(data) => Op::WriteFull { data },
        PbOp::Append(data) => Op::Append { data },
        PbOp::Truncate(size) => Op::Truncate { size },
        PbOp::Zero(zero) => Op::Zero { offset: zero.offset, length: zero.length },
        PbOp::GetAttribute(name) => Op::GetAttribute { name },
        PbOp::GetAttributes(_) => Op::GetAttributes,
        PbOp::SetAttribute(pb::Attribute { name, value }) => Op::SetAttribute { name, value },
        PbOp::RemoveAttribute(name) => Op::RemoveAttribute { name },
        PbOp::MapGet(get) => Op::MapGet { keys: get.keys },
        PbOp::MapSet(set) => Op::MapSet { entries: map(set.entries) },
        PbOp::MapRemove(remove) => Op::MapRemove { keys: remove.keys },
        PbOp::MapRange(range) => {
            Op::MapRange { after: range.after, prefix: range.prefix, limit: range.limit }
        }
        PbOp::MapClear(_) => Op::MapClear,
        PbOp::MapGetHeader(_) => Op::MapGetHeader,
        PbOp::MapSetHeader(value) => Op::MapSetHeader { value },
        PbOp::SnapshotCreate(name) => Op::SnapshotCreate { snapshot: SnapshotName::new(name)? },
        PbOp::SnapshotRemove(name) => Op::SnapshotRemove { snapshot: SnapshotName::new(name)? },
        PbOp::SnapshotList(_) => Op::SnapshotList,
        PbOp::Rollback(name) => Op::Rollback { snapshot: SnapshotName::new(name)? },
        PbOp::CloneFrom(clone) => Op::CloneFrom {
            source: ObjectName::new(clone.source)?,
            snapshot: SnapshotName::new(clone.snapshot)?,
        },
        PbOp::WriteFullFrom(from) => Op::WriteFullFrom {
            source: ObjectName::new(from.source)?,
            snapshot: SnapshotName::new(from.snapshot)?,
        },
        PbOp::Call(call) => Op::Call(ClassCall {
            class: ClassName::new(call.class_name)?,
            method: MethodName::new(call.method)?,
            version: call.version,
            input: call.input,
        }),
    })
}

/// Decodes the reply to a transaction.
pub fn reply(message: pb::ObjectReply) -> Result<Reply> {
    let results: Result<Vec<OpResult>> = message.results.into_iter().map(result).collect();
    Ok(Reply { version: message.version, results: results? })
}

/// The results of a request's ops if the OSD has answered `OsdDone`.
pub fn results_done(ops: &[Op]) -> Vec<OpResult> {
    let done = |op: &Op| match op {
        Op::Call(_) => OpResult::Called(CallReply { status: 0, output: Bytes::new() }),
        _ => OpResult::Done,
    };
    ops.iter().map(done).collect()
}

fn result(message: pb::OpResult) -> Result<OpResult> {
    let result = message.result.ok_or_else(|| senseless("a result that is not known here"))?;
    Ok(match result {
        PbResult::Done(_) => OpResult::Done,
        PbResult::Stat(stat) => OpResult::Stat(ObjectStat {
            size: stat.size,
            modified_micros: stat.modified_micros,
            version: stat.version,
        }),
        PbResult::Data(data) => OpResult::Data(data),
        PbResult::Offset(offset) => OpResult::Offset(offset),
        PbResult::Attributes(all) => {
            let pairs = all.attributes.into_iter().map(|each| (each.name, each.value));
            OpResult::Attributes(pairs.collect())
        }
        PbResult::Values(values) => {
            OpResult::Values(values.values.into_iter().map(|each| each.value).collect())
        }
        PbResult::Range(page) => {
            OpResult::Range(MapRange { entries: map(page.entries), more: page.more })
        }
        PbResult::Snapshots(all) => {
            let names = all.snapshots.into_iter().map(SnapshotName::new);
            OpResult::Snapshots(names.collect::<Result<_>>().map_err(as_senseless)?)
        }
        PbResult::Called(reply) => {
            OpResult::Called(CallReply { status: reply.status, output: reply.output })
        }
    })
}

fn map(entries: Vec<pb::MapEntry>) -> Vec<MapEntry> {
    entries.into_iter().map(|pb::MapEntry { key, value }| MapEntry { key, value }).collect()
}

/// Decodes a request to list names.
pub fn list_request(message: pb::ListRequest) -> Result<ListRequest> {
    let after = match message.after.as_str() {
        "" => None,
        name => Some(ObjectName::new(name)?),
    };
    within("a prefix", &message.prefix, MAX_OBJECT_NAME_BYTES)?;
    Ok(ListRequest {
        pool: PoolName::new(message.pool)?,
        after,
        prefix: message.prefix,
        limit: message.limit as usize,
    })
}

/// A call of a service.
pub fn ask(message: pb::Ask) -> Result<pb::Ask> {
    within("a service's name", &message.service, MAX_IDENTIFIER_BYTES)?;
    within("a method's name", &message.method, MAX_IDENTIFIER_BYTES)?;
    Ok(message)
}

/// The error does not repeat the string, which may have any length.
fn within(what: &str, text: &str, most: usize) -> Result<()> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} of {} bytes is too long", text.len()))
        .hint(format!("at most {most} bytes fit")))
}

/// A page of names.
pub fn list_page(message: pb::ListPage) -> Result<ListPage> {
    let names = message.names.into_iter().map(ObjectName::new);
    let names = names.collect::<Result<_>>().map_err(as_senseless)?;
    Ok(ListPage { names, more: message.more })
}

/// Decodes an event of a watch; `None` if the watch has ended.
pub fn watch_event(message: pb::WatchEvent) -> Option<WatchEvent> {
    use pb::watch_event::Event;
    match message.event {
        Some(Event::Changed(changed)) => Some(WatchEvent::Changed { version: changed.version }),
        Some(Event::Notified(told)) => Some(WatchEvent::Notified { payload: told.payload }),
        // An unknown event counts as a missed event.
        Some(Event::Lost(_)) | None => Some(WatchEvent::Lost),
        Some(Event::Ended(_)) => None,
    }
}

/// An error, as it was when it was sent.
pub fn error(message: pb::Error) -> Error {
    let mut error = Error::new(kind(message.kind()), message.message);
    if !message.operation.is_empty() {
        error = error.during(message.operation);
    }
    if !message.object.is_empty() {
        error = error.on(message.object);
    }
    if !message.hint.is_empty() {
        error = error.hint(message.hint);
    }
    if let Ok(target) = TargetName::new(message.target) {
        error = error.at(&target);
    }
    if let Some(status) = message.status {
        error = error.with_status(status);
    }
    if let Some(site) = message.fault {
        error = error.with_fault(FaultSite {
            program: site.program,
            version: site.version,
            line: (site.line > 0).then_some(site.line),
            traceback: site.traceback,
        });
    }
    error
}

/// Decodes the kind of an error.
pub fn kind(kind: pb::ErrorKind) -> ErrorKind {
    match kind {
        pb::ErrorKind::NotFound => ErrorKind::NotFound,
        pb::ErrorKind::Exists => ErrorKind::Exists,
        pb::ErrorKind::Invalid => ErrorKind::Invalid,
        pb::ErrorKind::Stale => ErrorKind::Stale,
        pb::ErrorKind::Conflict => ErrorKind::Conflict,
        pb::ErrorKind::Denied => ErrorKind::Denied,
        pb::ErrorKind::Exhausted => ErrorKind::Exhausted,
        pb::ErrorKind::Unavailable => ErrorKind::Unavailable,
        pb::ErrorKind::Unsupported => ErrorKind::Unsupported,
        pb::ErrorKind::Fault => ErrorKind::Fault,
        // An unknown or missing kind does not say what to do.
        pb::ErrorKind::Corrupt | pb::ErrorKind::Unspecified => ErrorKind::Corrupt,
    }
}

/// The error for an answer that makes no sense.
pub fn senseless(what: &str) -> Error {
    Error::corrupt(format!("the node sent {what}"))
        .hint("run the client and the nodes from one release")
}

fn as_senseless(error: Error) -> Error {
    senseless(error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decoder_bounds_the_lengths_of_names() {
        let asked = |service: usize, method: usize| {
            let [service, method] = [service, method].map(|length| "x".repeat(length));
            ask(pb::Ask { service, method, input: Bytes::new() }).map(drop)
        };
        let listed = |prefix: usize| {
            let prefix = "x".repeat(prefix);
            let pool = "data".to_owned();
            list_request(pb::ListRequest { pool, prefix, ..Default::default() }).map(drop)
        };
        let (identifier, name) = (MAX_IDENTIFIER_BYTES, MAX_OBJECT_NAME_BYTES);
        asked(identifier, identifier).unwrap();
        listed(name).unwrap();
        for refused in [asked(identifier + 1, 1), asked(1, identifier + 1), listed(name + 1)] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().len() < 100, "{error}");
        }
    }
}
