//! The store under test, and the objects that a check uses.

use std::panic::Location;
use std::sync::Arc;

use bytes::Bytes;
use nacre_object::limits::MAX_REPLY_BYTES;
use nacre_object::{
    Capability, Error, ErrorKind, MapEntry, ObjectId, ObjectName, Op, OpResult, PoolName, Reply,
    Request, Result, SnapshotName, Store, Watch,
};

use crate::ops;

/// A store to be tested. Checks share it, each with objects of its own.
#[derive(Clone)]
pub struct Subject {
    store: Arc<dyn Store>,
    watch: Option<Arc<dyn Watch>>,
    pool: PoolName,
}

impl Subject {
    /// A store without watches.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, watch: None, pool: PoolName::new("conformance").expect("a pool's name") }
    }

    /// A store with watches.
    pub fn watched<S: Store + Watch + 'static>(store: Arc<S>) -> Self {
        Self { watch: Some(store.clone()), ..Self::new(store) }
    }

    /// This subject in another pool; the default pool is `conformance`.
    pub fn in_pool(mut self, pool: PoolName) -> Self {
        self.pool = pool;
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Its watches, if it has any.
    pub fn watch(&self) -> Option<&Arc<dyn Watch>> {
        self.watch.as_ref()
    }

    /// The pool the checks work in.
    pub fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// Whether the store can do it.
    pub fn has(&self, capability: Capability) -> bool {
        self.store.capabilities().has(capability)
    }

    /// The object of a name.
    pub fn object(&self, name: impl AsRef<str>) -> TestObject {
        let name = ObjectName::new(name).expect("checks name objects well");
        let id = ObjectId::new(self.pool.clone(), name);
        TestObject { store: self.store.clone(), id }
    }
}

/// One object under test.
#[derive(Clone)]
pub struct TestObject {
    store: Arc<dyn Store>,
    id: ObjectId,
}

/// Everything that a client can read of an object, except its version and time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The byte stream.
    pub stream: Vec<u8>,
    /// The map.
    pub map: Vec<MapEntry>,
    /// The map's header.
    pub header: Bytes,
    /// The attributes.
    pub attributes: Vec<(String, Bytes)>,
}

impl TestObject {
    /// Which object it is.
    pub fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Its name.
    pub fn name(&self) -> &ObjectName {
        &self.id.name
    }

    /// Runs a transaction.
    pub async fn submit(&self, ops: impl IntoIterator<Item = Op>) -> Result<Reply> {
        let request = Request::new(self.id.clone(), ops.into_iter().collect())?;
        self.store.submit(request).await
    }

    /// Runs a transaction at a snapshot.
    pub async fn submit_at(
        &self,
        snapshot: &str,
        ops: impl IntoIterator<Item = Op>,
    ) -> Result<Reply> {
        let request = Request::new(self.id.clone(), ops.into_iter().collect())?;
        self.store.submit(request.at_snapshot(ops::snapshot(snapshot))).await
    }

    /// Runs a transaction that must succeed; returns the whole reply.
    #[track_caller]
    pub fn replies(&self, ops: impl IntoIterator<Item = Op>) -> impl Future<Output = Reply> + Send {
        let (ops, caller) = (ops.into_iter().collect::<Vec<_>>(), Location::caller());
        let named: Vec<_> = ops.iter().map(Op::name).collect();
        async move {
            let reply = self.submit(ops).await;
            reply.unwrap_or_else(|error| panic!("{caller}: {named:?} must succeed: {error}"))
        }
    }

    /// Runs a transaction that must succeed; returns its results.
    #[track_caller]
    pub fn does(
        &self,
        ops: impl IntoIterator<Item = Op>,
    ) -> impl Future<Output = Vec<OpResult>> + Send {
        let reply = self.replies(ops);
        async move { reply.await.results }
    }

    /// Runs one op that must succeed; returns its result.
    #[track_caller]
    pub fn answers(&self, op: Op) -> impl Future<Output = OpResult> + Send {
        let results = self.does([op]);
        async move { results.await.pop().expect("one result an op") }
    }

    /// Runs a transaction that must fail and change nothing. Returns the error.
    #[track_caller]
    pub fn refuses(&self, ops: impl IntoIterator<Item = Op>) -> impl Future<Output = Error> + Send {
        let (ops, caller) = (ops.into_iter().collect::<Vec<_>>(), Location::caller());
        let named: Vec<_> = ops.iter().map(Op::name).collect();
        async move {
            let before = (self.version().await, self.content().await);
            let result = self.submit(ops).await;
            let after = (self.version().await, self.content().await);
            assert!(before == after, "{caller}: {named:?} left a trace");
            match result {
                Err(error) => error,
                Ok(reply) => panic!("{caller}: {named:?} must fail, but answered {reply:?}"),
            }
        }
    }

    /// The object's version, `None` if it does not exist.
    pub async fn version(&self) -> Option<u64> {
        match self.submit([Op::Stat]).await {
            Ok(reply) => Some(reply.version),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("stat: {error}"),
        }
    }

    /// The content of the object; `None` if the object does not exist.
    pub async fn content(&self) -> Option<Content> {
        self.content_at(None).await
    }

    /// The content of the object at a snapshot, or now; `None` if the object or the snapshot does
    /// not exist.
    pub async fn content_at(&self, snapshot: Option<&SnapshotName>) -> Option<Content> {
        let whole = [Op::Stat, Op::MapGetHeader, Op::GetAttributes];
        let results = match self.look(snapshot, &whole).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            results => results.unwrap_or_else(|error| panic!("{}: {error}", self.id)),
        };
        let [OpResult::Stat(stat), OpResult::Data(header), OpResult::Attributes(attributes)] =
            <[OpResult; 3]>::try_from(results).expect("one result an op")
        else {
            panic!("the results do not fit the ops")
        };
        let stream = self.read_stream(snapshot, stat.size).await;
        let map = self.read_map(snapshot).await;
        Some(Content { stream, map, header, attributes })
    }

    async fn look(&self, snapshot: Option<&SnapshotName>, ops: &[Op]) -> Result<Vec<OpResult>> {
        let mut request = Request::new(self.id.clone(), ops.to_vec())?;
        request.header.snapshot = snapshot.cloned();
        self.store.submit(request).await.map(|reply| reply.results)
    }

    async fn read_stream(&self, snapshot: Option<&SnapshotName>, size: u64) -> Vec<u8> {
        let mut stream = Vec::new();
        while (stream.len() as u64) < size {
            let piece = ops::read(stream.len() as u64, MAX_REPLY_BYTES as u64);
            match self.look(snapshot, &[piece]).await.as_deref() {
                Ok([OpResult::Data(data)]) if !data.is_empty() => stream.extend_from_slice(data),
                other => panic!("{}: read at {}: {other:?}", self.id, stream.len()),
            }
        }
        stream
    }

    async fn read_map(&self, snapshot: Option<&SnapshotName>) -> Vec<MapEntry> {
        let mut map: Vec<MapEntry> = Vec::new();
        loop {
            let after = map.last().map(|entry| entry.key.clone()).unwrap_or_default();
            match self.look(snapshot, &[ops::map_range(after, "", u32::MAX)]).await.as_deref() {
                Ok([OpResult::Range(range)]) => {
                    map.extend_from_slice(&range.entries);
                    if !range.more {
                        return map;
                    }
                    assert!(!range.entries.is_empty(), "{}: a page of nothing, and more", self.id);
                }
                other => panic!("{}: map-range: {other:?}", self.id),
            }
        }
    }
}
