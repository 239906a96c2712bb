//! Short functions that make ops and results for tests.

use bytes::Bytes;
use nacre_object::{
    ClassCall, ClassName, MapEntry, MapRange, MethodName, ObjectName, Op, OpResult, SnapshotName,
};

use crate::TestClasses;

/// [`Op::Create`], exclusive.
pub fn create() -> Op {
    Op::Create { exclusive: true }
}

/// [`Op::Create`], not exclusive.
pub fn ensure() -> Op {
    Op::Create { exclusive: false }
}

/// [`Op::Read`].
pub fn read(offset: u64, length: u64) -> Op {
    Op::Read { offset, length }
}

/// [`Op::Read`] of as much as there is.
pub fn read_all() -> Op {
    read(0, u64::MAX)
}

/// [`Op::Write`].
pub fn write(offset: u64, data: impl Into<Bytes>) -> Op {
    Op::Write { offset, data: data.into() }
}

/// [`Op::WriteFull`].
pub fn write_full(data: impl Into<Bytes>) -> Op {
    Op::WriteFull { data: data.into() }
}

/// [`Op::Append`].
pub fn append(data: impl Into<Bytes>) -> Op {
    Op::Append { data: data.into() }
}

/// [`Op::Truncate`].
pub fn truncate(size: u64) -> Op {
    Op::Truncate { size }
}

/// [`Op::Zero`].
pub fn zero(offset: u64, length: u64) -> Op {
    Op::Zero { offset, length }
}

/// [`Op::GetAttribute`].
pub fn get_attribute(name: impl Into<String>) -> Op {
    Op::GetAttribute { name: name.into() }
}

/// [`Op::SetAttribute`].
pub fn set_attribute(name: impl Into<String>, value: impl Into<Bytes>) -> Op {
    Op::SetAttribute { name: name.into(), value: value.into() }
}

/// [`Op::RemoveAttribute`].
pub fn remove_attribute(name: impl Into<String>) -> Op {
    Op::RemoveAttribute { name: name.into() }
}

/// [`Op::MapGet`].
pub fn map_get<K: Into<Bytes>>(keys: impl IntoIterator<Item = K>) -> Op {
    Op::MapGet { keys: keys.into_iter().map(Into::into).collect() }
}

/// [`Op::MapSet`].
pub fn map_set<K: Into<Bytes>, V: Into<Bytes>>(entries: impl IntoIterator<Item = (K, V)>) -> Op {
    Op::MapSet { entries: entries.into_iter().map(entry).collect() }
}

/// [`Op::MapRemove`].
pub fn map_remove<K: Into<Bytes>>(keys: impl IntoIterator<Item = K>) -> Op {
    Op::MapRemove { keys: keys.into_iter().map(Into::into).collect() }
}

/// [`Op::MapRange`].
pub fn map_range(after: impl Into<Bytes>, prefix: impl Into<Bytes>, limit: u32) -> Op {
    Op::MapRange { after: after.into(), prefix: prefix.into(), limit }
}

/// [`Op::MapSetHeader`].
pub fn map_set_header(value: impl Into<Bytes>) -> Op {
    Op::MapSetHeader { value: value.into() }
}

/// [`Op::SnapshotCreate`].
pub fn snapshot_create(name: &str) -> Op {
    Op::SnapshotCreate { snapshot: snapshot(name) }
}

/// [`Op::SnapshotRemove`].
pub fn snapshot_remove(name: &str) -> Op {
    Op::SnapshotRemove { snapshot: snapshot(name) }
}

/// [`Op::Rollback`].
pub fn rollback(name: &str) -> Op {
    Op::Rollback { snapshot: snapshot(name) }
}

/// [`Op::CloneFrom`].
pub fn clone_from(source: &ObjectName, name: &str) -> Op {
    Op::CloneFrom { source: source.clone(), snapshot: snapshot(name) }
}

/// [`Op::WriteFullFrom`].
pub fn write_full_from(source: &ObjectName, name: &str) -> Op {
    Op::WriteFullFrom { source: source.clone(), snapshot: snapshot(name) }
}

/// [`Op::Call`] of a method of [`TestClasses`].
pub fn call(method: &str, input: impl Into<Bytes>) -> Op {
    Op::Call(ClassCall {
        class: ClassName::new(TestClasses::CLASS).expect("the class's name is well formed"),
        method: MethodName::new(method).expect("tests name methods well"),
        version: None,
        input: input.into(),
    })
}

/// A snapshot's name.
pub fn snapshot(name: &str) -> SnapshotName {
    SnapshotName::new(name).expect("tests name snapshots well")
}

/// The result of a read, an attribute or a header.
pub fn data(bytes: impl Into<Bytes>) -> OpResult {
    OpResult::Data(bytes.into())
}

/// The result of [`Op::MapGet`].
pub fn values(values: impl IntoIterator<Item = Option<&'static str>>) -> OpResult {
    OpResult::Values(values.into_iter().map(|value| value.map(Bytes::from)).collect())
}

/// The result of [`Op::MapRange`], with nothing after it.
pub fn range<K: Into<Bytes>, V: Into<Bytes>>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> OpResult {
    OpResult::Range(MapRange { entries: entries.into_iter().map(entry).collect(), more: false })
}

/// The result of [`Op::MapRange`], with more after it.
pub fn range_and_more<K: Into<Bytes>, V: Into<Bytes>>(
    entries: impl IntoIterator<Item = (K, V)>,
) -> OpResult {
    OpResult::Range(MapRange { entries: entries.into_iter().map(entry).collect(), more: true })
}

/// The result of [`Op::SnapshotList`].
pub fn snapshots(names: impl IntoIterator<Item = &'static str>) -> OpResult {
    OpResult::Snapshots(names.into_iter().map(snapshot).collect())
}

fn entry<K: Into<Bytes>, V: Into<Bytes>>((key, value): (K, V)) -> MapEntry {
    MapEntry { key: key.into(), value: value.into() }
}
