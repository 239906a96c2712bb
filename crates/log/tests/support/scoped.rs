//! Stores for several test clusters on one engine that runs in real time.

use std::cell::Cell;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, PoolName, Reply, Request, Result, Store, Watch,
    WatchStream,
};

/// Makes virtual time advance with real time, because daemons and disks do not use virtual time.
/// Each test runs on its own thread, so one call on each thread is enough.
pub fn let_time_pass() {
    thread_local!(static PASSES: Cell<bool> = const { Cell::new(false) });
    if !PASSES.replace(true) {
        tokio::time::resume();
    }
}

/// A store whose pools are an engine's, each under another name.
#[derive(Debug)]
pub struct Scoped<E> {
    engine: E,
    scope: String,
}

impl<E> Scoped<E> {
    pub fn new(engine: E, scope: String) -> Self {
        Self { engine, scope }
    }

    fn pool(&self, pool: &PoolName) -> Result<PoolName> {
        PoolName::new(format!("{}{pool}", self.scope))
    }

    fn object(&self, object: &ObjectId) -> Result<ObjectId> {
        Ok(ObjectId::new(self.pool(&object.pool)?, object.name.clone()))
    }
}

#[async_trait]
impl<E: Store> Store for Scoped<E> {
    async fn submit(&self, mut request: Request) -> Result<Reply> {
        request.header.object = self.object(&request.header.object)?;
        self.engine.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.engine.list(ListRequest { pool: self.pool(&request.pool)?, ..request }).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }
}

#[async_trait]
impl<E: Watch> Watch for Scoped<E> {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.engine.watch(&self.object(object)?).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.engine.notify(&self.object(object)?, payload).await
    }
}
