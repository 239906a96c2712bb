//! Applies a list of ops to a view, in the same way for every engine.

use bytes::Bytes;

use crate::limits::{MAX_MAP_RANGE_ENTRIES, MAX_REPLY_BYTES, MAX_REPLY_ENTRIES};
use crate::{
    CallContext, ClassHost, Error, MapEntry, ObjectName, ObjectView, Op, OpResult, Result,
    SnapshotName,
};

/// What ops can do that a class method cannot: use snapshots.
///
/// Errors are those of [`ObjectView`]. By default every method fails with `Unsupported`, which
/// suits engines without snapshots.
pub trait TransactionView: ObjectView {
    /// Keeps the present state of the object, including this transaction's changes. The object must
    /// exist. `Exists` if the name is taken, `Exhausted` if `MAX_SNAPSHOTS` or
    /// `MAX_SNAPSHOT_ENTRIES` would be exceeded.
    fn snapshot_create(&mut self, snapshot: &SnapshotName) -> Result<()> {
        no_snapshots(snapshot)
    }

    /// Drops a snapshot; `NotFound` if there is none of that name.
    fn snapshot_remove(&mut self, snapshot: &SnapshotName) -> Result<()> {
        no_snapshots(snapshot)
    }

    /// The snapshots of the object, by name. They outlive its removal.
    fn snapshots(&mut self) -> Result<Vec<SnapshotName>> {
        Err(Error::unsupported("this engine has no snapshots"))
    }

    /// Restores stream, map, header and attributes from a snapshot, even if the object was removed.
    /// `NotFound` if there is no snapshot of that name.
    fn rollback(&mut self, snapshot: &SnapshotName) -> Result<()> {
        no_snapshots(snapshot)
    }

    /// Creates the object as a copy of a snapshot of another object, as the snapshot was before
    /// this transaction. `Exists` if the object exists; `NotFound` if there is no such snapshot.
    fn clone_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        let _ = source;
        no_snapshots(snapshot)
    }

    /// Replaces the whole stream by that of a snapshot of another object, as the snapshot was
    /// before this transaction. Creates the object if it is absent. `NotFound` if there is no such
    /// snapshot.
    fn write_full_from(&mut self, source: &ObjectName, snapshot: &SnapshotName) -> Result<()> {
        let _ = source;
        no_snapshots(snapshot)
    }
}

fn no_snapshots(snapshot: &SnapshotName) -> Result<()> {
    Err(Error::unsupported(format!("this engine has no snapshots, so no {snapshot}")))
}

/// Applies `ops` to `view`, in order. On an error the caller must drop the changes that `view` has
/// collected.
///
/// # Errors
/// The error of the first op that failed, with that op's name as operation; `Exhausted` if the
/// results exceed `MAX_REPLY_BYTES` or `MAX_REPLY_ENTRIES`, or if the calls take longer than the
/// host allows.
pub fn run_transaction(
    ops: &[Op],
    view: &mut dyn TransactionView,
    classes: &dyn ClassHost,
    context: &CallContext,
) -> Result<Vec<OpResult>> {
    let mut results = Vec::with_capacity(ops.len());
    let (mut reply_bytes, mut reply_entries) = (0, 0);
    // One call is bounded by itself.
    let allowance = (count_calls(ops) > 1).then(|| classes.allowance());
    for op in ops {
        if let (Op::Call(_), Some(allowance)) = (op, &allowance) {
            allowance.check().map_err(|error| error.during(op.name()))?;
        }
        let room = MAX_REPLY_BYTES - reply_bytes;
        let result = run_op(op, view, classes, context, room);
        let result = result.map_err(|error| error.during(op.name()))?;
        reply_bytes += result.payload_bytes();
        reply_entries += result.entry_count();
        if reply_bytes > MAX_REPLY_BYTES || reply_entries > MAX_REPLY_ENTRIES {
            return Err(reply_exceeded().during(op.name()));
        }
        results.push(result);
    }
    Ok(results)
}

fn count_calls(ops: &[Op]) -> usize {
    ops.iter().filter(|op| matches!(op, Op::Call(_))).count()
}

/// Runs one op. Its result may have `room` bytes, the bytes that are left in the reply.
fn run_op(
    op: &Op,
    view: &mut dyn TransactionView,
    classes: &dyn ClassHost,
    context: &CallContext,
    room: usize,
) -> Result<OpResult> {
    match op {
        Op::AssertExists | Op::AssertAbsent | Op::AssertVersion(_) => run_guard(op, view),
        Op::Create { exclusive } => done(view.create(*exclusive)),
        Op::Remove => done(view.remove()),
        Op::Stat => view.stat().map(OpResult::Stat),
        Op::Read { offset, length } => {
            // A read longer than a reply can hold is the caller's mistake, not a short read.
            if *length > MAX_REPLY_BYTES as u64 && view.stat()?.size > MAX_REPLY_BYTES as u64 {
                return Err(Error::exhausted(format!("a read of {length} bytes is too long"))
                    .hint(format!("read at most {MAX_REPLY_BYTES} bytes at a time")));
            }
            view.read(*offset, *length).map(OpResult::Data)
        }
        Op::Write { offset, data } => done(view.write(*offset, data.clone())),
        Op::WriteFull { data } => done(view.write_full(data.clone())),
        Op::Append { data } => view.append(data.clone()).map(OpResult::Offset),
        Op::Truncate { size } => done(view.truncate(*size)),
        Op::Zero { offset, length } => done(view.zero(*offset, *length)),
        Op::GetAttribute { name } => view
            .attribute(name)?
            .map(OpResult::Data)
            .ok_or_else(|| Error::not_found(format!("no attribute {name:?}"))),
        Op::GetAttributes => view.attributes().map(OpResult::Attributes),
        Op::SetAttribute { name, value } => done(view.set_attribute(name, value.clone())),
        Op::RemoveAttribute { name } => done(view.remove_attribute(name)),
        Op::MapGet { keys } => {
            must_exist(view)?;
            get_all(keys, view, room).map(OpResult::Values)
        }
        Op::MapSet { entries } => done(set_all(entries, view)),
        Op::MapRemove { keys } => {
            must_exist(view)?;
            done(keys.iter().try_for_each(|key| view.map_remove(key)))
        }
        Op::MapRange { after, prefix, limit } => {
            let limit = (*limit as usize).min(MAX_MAP_RANGE_ENTRIES);
            view.map_range(after, prefix, limit).map(OpResult::Range)
        }
        Op::MapClear => done(view.map_clear()),
        Op::MapGetHeader => view.map_header().map(OpResult::Data),
        Op::MapSetHeader { value } => done(view.set_map_header(value.clone())),
        Op::SnapshotCreate { snapshot } => done(view.snapshot_create(snapshot)),
        Op::SnapshotRemove { snapshot } => done(view.snapshot_remove(snapshot)),
        Op::SnapshotList => view.snapshots().map(OpResult::Snapshots),
        Op::Rollback { snapshot } => done(view.rollback(snapshot)),
        Op::CloneFrom { source, snapshot } => done(view.clone_from(source, snapshot)),
        Op::WriteFullFrom { source, snapshot } => done(view.write_full_from(source, snapshot)),
        Op::Call(call) => {
            let view: &mut dyn ObjectView = view;
            classes.call(call, view, context).map(OpResult::Called)
        }
    }
}

fn run_guard(op: &Op, view: &mut dyn TransactionView) -> Result<OpResult> {
    let exists = view.exists()?;
    match op {
        Op::AssertAbsent if exists => Err(Error::exists("the object already exists")),
        Op::AssertAbsent => Ok(OpResult::Done),
        _ if !exists => Err(Error::not_found("no such object")),
        Op::AssertVersion(expected) => match view.version()? {
            version if version == *expected => Ok(OpResult::Done),
            version => {
                Err(Error::conflict(format!("the object's version is {version}, not {expected}")))
            }
        },
        _ => Ok(OpResult::Done),
    }
}

fn must_exist(view: &mut dyn TransactionView) -> Result<()> {
    if view.exists()? { Ok(()) } else { Err(Error::not_found("no such object")) }
}

/// Reads the values of the keys. Fails once they exceed `room`, the bytes left in the reply. This
/// matters because a small request can name one key many times.
fn get_all(
    keys: &[Bytes],
    view: &mut dyn TransactionView,
    room: usize,
) -> Result<Vec<Option<Bytes>>> {
    let mut values = Vec::with_capacity(keys.len());
    let mut bytes = 0;
    for key in keys {
        let value = view.map_get(key)?;
        bytes += value.as_ref().map_or(0, Bytes::len);
        if bytes > room {
            return Err(reply_exceeded());
        }
        values.push(value);
    }
    Ok(values)
}

fn reply_exceeded() -> Error {
    Error::exhausted(format!("the reply would exceed {MAX_REPLY_BYTES} bytes"))
        .hint("ask for less, or read in pages")
}

fn set_all(entries: &[MapEntry], view: &mut dyn TransactionView) -> Result<()> {
    if entries.is_empty() {
        return view.create(false);
    }
    entries.iter().try_for_each(|entry| view.map_set(&entry.key, entry.value.clone()))
}

fn done(result: Result<()>) -> Result<OpResult> {
    result.map(|()| OpResult::Done)
}
