//! A list of ops on one object, built step by step.

use bytes::Bytes;
use nacre_object::{ClassCall, MapEntry, Op, Reply, Result};

use crate::Object;

/// Ops that happen wholly or not at all. They run in order, and each sees the effects of earlier
/// ones.
///
/// ```no_run
/// # async fn f(object: nacre::Object) -> nacre::Result<()> {
/// let version = object.stat().await?.version;
/// object.transaction().assert_version(version).append("more").map_set("k", "v").commit().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a transaction does nothing until it is committed"]
pub struct Transaction<'a> {
    object: &'a Object,
    ops: Vec<Op>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(object: &'a Object) -> Self {
        Self { object, ops: Vec::new() }
    }

    /// Adds any op.
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// The object must exist.
    pub fn assert_exists(self) -> Self {
        self.op(Op::AssertExists)
    }

    /// The object must not exist.
    pub fn assert_absent(self) -> Self {
        self.op(Op::AssertAbsent)
    }

    /// The object's version must be this one.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(Op::AssertVersion(version))
    }

    /// Reads bytes.
    pub fn read(self, offset: u64, length: u64) -> Self {
        self.op(Op::Read { offset, length })
    }

    /// Puts bytes at `offset`.
    pub fn write(self, offset: u64, data: impl Into<Bytes>) -> Self {
        self.op(Op::Write { offset, data: data.into() })
    }

    /// Puts bytes at the end.
    pub fn append(self, data: impl Into<Bytes>) -> Self {
        self.op(Op::Append { data: data.into() })
    }

    /// Sets a key of the map.
    pub fn map_set(self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.op(Op::MapSet { entries: vec![MapEntry { key: key.into(), value: value.into() }] })
    }

    /// Removes a key of the map.
    pub fn map_remove(self, key: impl Into<Bytes>) -> Self {
        self.op(Op::MapRemove { keys: vec![key.into()] })
    }

    /// Sets an attribute.
    pub fn set_attribute(self, name: &str, value: impl Into<Bytes>) -> Self {
        self.op(Op::SetAttribute { name: name.into(), value: value.into() })
    }

    /// Runs a method of a class.
    pub fn call(self, call: ClassCall) -> Self {
        self.op(Op::Call(call))
    }

    /// Runs the transaction.
    ///
    /// # Errors
    /// The error of the first op that failed. The object is then unchanged.
    pub async fn commit(self) -> Result<Reply> {
        self.object.submit(self.ops).await
    }
}
