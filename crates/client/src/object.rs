//! `Object`: everything one object can do, one method an operation.

use bytes::Bytes;
use nacre_calls::MIGRATE_METHOD;
use nacre_calls::{EVAL_BUFFERLIST, EvalRequest, LUA_CLASS};
use nacre_calls::{Value, decode_reply};
use nacre_channels::{DeadLetters, OutboxPage, read_outbox, resend};
use nacre_object::{
    CallReply, ClassCall, ClassName, Error, MapEntry, MapRange, ObjectId, ObjectName, ObjectStat,
    Op, OpResult, Reply, Request, Result, SnapshotName,
};

use crate::Pool;
use crate::transaction::Transaction;

/// A handle to one object, which need not exist. It is cheap to clone.
///
/// Every method is a transaction of its own; [`Object::transaction`] puts several ops into one.
/// Errors are those of [`nacre_object::ObjectView`], and `Unavailable` if the object's target does
/// not answer. After `Unavailable` a change may have happened.
#[derive(Debug, Clone)]
pub struct Object {
    pool: Pool,
    id: ObjectId,
    snapshot: Option<SnapshotName>,
}

impl Object {
    pub(crate) fn new(pool: Pool, name: ObjectName) -> Self {
        let id = ObjectId::new(pool.name().clone(), name);
        Self { pool, id, snapshot: None }
    }

    /// Pool and name.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The object as it was at a snapshot, for reading.
    pub fn at(&self, snapshot: SnapshotName) -> Self {
        Self { snapshot: Some(snapshot), ..self.clone() }
    }

    /// A list of ops that happens wholly or not at all.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    pub(crate) async fn submit(&self, ops: Vec<Op>) -> Result<Reply> {
        let mut request = Request::new(self.id.clone(), ops)?;
        request.header.snapshot = self.snapshot.clone();
        self.pool.store().submit(request).await.map_err(|error| error.on(&self.id))
    }

    async fn one(&self, op: Op) -> Result<OpResult> {
        let name = op.name();
        self.submit(vec![op]).await?.results.pop().ok_or_else(|| no_answer(name))
    }

    async fn done(&self, op: Op) -> Result<()> {
        self.one(op).await.map(drop)
    }

    async fn data(&self, op: Op) -> Result<Bytes> {
        let name = op.name();
        match self.one(op).await? {
            OpResult::Data(data) => Ok(data),
            _ => Err(no_answer(name)),
        }
    }

    /// Makes the object exist; `Exists` if it does and `exclusive`.
    pub async fn create(&self, exclusive: bool) -> Result<()> {
        self.done(Op::Create { exclusive }).await
    }

    /// Removes the object, not its snapshots.
    pub async fn remove(&self) -> Result<()> {
        self.done(Op::Remove).await
    }

    /// Size, time of change, version.
    pub async fn stat(&self) -> Result<ObjectStat> {
        match self.one(Op::Stat).await? {
            OpResult::Stat(stat) => Ok(stat),
            _ => Err(no_answer("stat")),
        }
    }

    /// Reads bytes `offset..offset+length`, cut at the end of the stream, in one request. Fails
    /// with `Exhausted` if the bytes do not fit into one reply; then use [`Object::reader`] or
    /// [`Object::read_all`].
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.data(Op::Read { offset, length }).await
    }

    /// Puts bytes at `offset`; a gap before it reads as zeros.
    pub async fn write(&self, offset: u64, data: impl Into<Bytes>) -> Result<()> {
        self.done(Op::Write { offset, data: data.into() }).await
    }

    /// Replaces the whole stream: one request. See [`Object::put`] for content of any size.
    pub async fn write_full(&self, data: impl Into<Bytes>) -> Result<()> {
        self.done(Op::WriteFull { data: data.into() }).await
    }

    /// Puts bytes at the end of the stream; returns the offset they went to.
    pub async fn append(&self, data: impl Into<Bytes>) -> Result<u64> {
        match self.one(Op::Append { data: data.into() }).await? {
            OpResult::Offset(offset) => Ok(offset),
            _ => Err(no_answer("append")),
        }
    }

    /// Cuts or extends (with zeros) the stream.
    pub async fn truncate(&self, size: u64) -> Result<()> {
        self.done(Op::Truncate { size }).await
    }

    /// Makes `offset..offset+length` read as zeros.
    pub async fn zero(&self, offset: u64, length: u64) -> Result<()> {
        self.done(Op::Zero { offset, length }).await
    }

    /// An attribute; `NotFound` if there is none of that name.
    pub async fn attribute(&self, name: &str) -> Result<Bytes> {
        self.data(Op::GetAttribute { name: name.into() }).await
    }

    /// All attributes, by name.
    pub async fn attributes(&self) -> Result<Vec<(String, Bytes)>> {
        match self.one(Op::GetAttributes).await? {
            OpResult::Attributes(all) => Ok(all),
            _ => Err(no_answer("get-attributes")),
        }
    }

    /// Sets an attribute.
    pub async fn set_attribute(&self, name: &str, value: impl Into<Bytes>) -> Result<()> {
        self.done(Op::SetAttribute { name: name.into(), value: value.into() }).await
    }

    /// Removes an attribute.
    pub async fn remove_attribute(&self, name: &str) -> Result<()> {
        self.done(Op::RemoveAttribute { name: name.into() }).await
    }

    /// A key's value, `None` if it is not there.
    pub async fn map_get(&self, key: impl Into<Bytes>) -> Result<Option<Bytes>> {
        match self.one(Op::MapGet { keys: vec![key.into()] }).await? {
            OpResult::Values(values) => Ok(values.into_iter().next().flatten()),
            _ => Err(no_answer("map-get")),
        }
    }

    /// Sets a key.
    pub async fn map_set(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<()> {
        let entries = vec![MapEntry { key: key.into(), value: value.into() }];
        self.done(Op::MapSet { entries }).await
    }

    /// Removes a key, whether it is there or not.
    pub async fn map_remove(&self, key: impl Into<Bytes>) -> Result<()> {
        self.done(Op::MapRemove { keys: vec![key.into()] }).await
    }

    /// Entries with `prefix` and key greater than `after`, at most `limit`.
    pub async fn map_range(
        &self,
        after: impl Into<Bytes>,
        prefix: impl Into<Bytes>,
        limit: u32,
    ) -> Result<MapRange> {
        let op = Op::MapRange { after: after.into(), prefix: prefix.into(), limit };
        match self.one(op).await? {
            OpResult::Range(range) => Ok(range),
            _ => Err(no_answer("map-range")),
        }
    }

    /// Runs a method of a class.
    ///
    /// # Errors
    /// If the method ends with a negative status, an error with that [`Error::status`]. The object
    /// is then unchanged.
    pub async fn call(
        &self,
        class: &str,
        method: &str,
        input: impl Into<Bytes>,
    ) -> Result<CallReply> {
        let call = ClassCall {
            class: class.parse()?,
            method: method.parse()?,
            version: None,
            input: input.into(),
        };
        self.call_version(call).await
    }

    /// Runs a method of the class version that the caller was written against.
    ///
    /// # Errors
    /// Those of [`Object::call`]; `Stale` if another version is active.
    pub async fn call_version(&self, call: ClassCall) -> Result<CallReply> {
        match self.one(Op::Call(call)).await? {
            OpResult::Called(reply) => Ok(reply),
            _ => Err(no_answer("call")),
        }
    }

    /// Moves some rows of an object of a Brados class from former layouts to the present one.
    /// Returns whether all rows have the present layout now, and how many rows were moved. Any
    /// caller can continue an interrupted migration.
    ///
    /// # Errors
    /// Those of [`Object::call_version`]; `Unsupported` if the class knows no former layout.
    pub async fn migrate_step(
        &self,
        class: &ClassName,
        version: Option<u64>,
    ) -> Result<(bool, u64)> {
        let method = MIGRATE_METHOD.parse()?;
        let call = ClassCall { class: class.clone(), method, version, input: Bytes::new() };
        let reply = self.call_version(call).await?;
        let outputs =
            decode_reply(&reply.output).map_err(|error| Error::corrupt(error.to_string()))?;
        match outputs.first().and_then(|(_, rows)| rows.first()).map(Vec::as_slice) {
            Some([Value::Bytes(state), Value::Int(moved)]) => {
                Ok((state == b"settled", moved.unsigned_abs()))
            }
            _ => Err(Error::corrupt("the class's reply to a migration step is malformed")
                .hint("put the class again, compiled by this release")),
        }
    }

    /// Runs a script without storing it, and then its function `handler`, as Ceph's `cls_lua` does.
    /// If `handler` is empty, only the script runs.
    ///
    /// # Errors
    /// Those of [`Object::call`]; `Fault` with the line if the script fails.
    pub async fn eval(
        &self,
        script: &str,
        handler: &str,
        input: impl Into<Bytes>,
    ) -> Result<CallReply> {
        let request = EvalRequest {
            script: Bytes::copy_from_slice(script.as_bytes()),
            handler: handler.into(),
            input: input.into(),
        };
        self.call(LUA_CLASS, EVAL_BUFFERLIST, request.to_bufferlist()).await
    }

    /// Keeps the object as it is under a name.
    pub async fn snapshot(&self, snapshot: SnapshotName) -> Result<()> {
        self.done(Op::SnapshotCreate { snapshot }).await
    }

    /// Drops a snapshot.
    pub async fn remove_snapshot(&self, snapshot: SnapshotName) -> Result<()> {
        self.done(Op::SnapshotRemove { snapshot }).await
    }

    /// The snapshots, by name.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotName>> {
        match self.one(Op::SnapshotList).await? {
            OpResult::Snapshots(all) => Ok(all),
            _ => Err(no_answer("snapshot-list")),
        }
    }

    /// Makes the object what it was at a snapshot.
    pub async fn rollback(&self, snapshot: SnapshotName) -> Result<()> {
        self.done(Op::Rollback { snapshot }).await
    }

    /// Makes this object a copy of a snapshot of another object. This object must not exist. Both
    /// must be on the same target. Names with the same part in braces, such as `{a}x` and `{a}y`,
    /// are always on the same target.
    pub async fn clone_from_snapshot(
        &self,
        source: ObjectName,
        snapshot: SnapshotName,
    ) -> Result<()> {
        self.done(Op::CloneFrom { source, snapshot }).await
    }

    /// Reads the messages that the object has sent, if they are not delivered yet or could not be
    /// delivered.
    pub async fn outbox(&self) -> Result<OutboxPage> {
        read_outbox(&**self.pool.store(), self.id()).await
    }

    /// Delivers *dead letters* again: messages whose delivery was given up. Call this once the
    /// cause is removed. Returns the number of these messages. Each arrives once, on behalf of its
    /// original sender. If the delivery fails again, the message becomes a dead letter again.
    ///
    /// # Errors
    /// `NotFound` if a message is no dead letter; `Denied` without the right `admin`.
    pub async fn resend(&self, letters: &DeadLetters) -> Result<u64> {
        resend(&**self.pool.store(), self.id(), letters).await
    }
}

pub(crate) fn no_answer(operation: &'static str) -> Error {
    Error::corrupt("the store's answer does not match the request")
        .during(operation)
        .hint("run the client and the nodes from one release")
}
