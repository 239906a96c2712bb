//! A store below a [`FaultLayer`], with the handle by which a test controls its faults.

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nacre_object::{
    Capabilities, ListPage, ListRequest, ObjectId, Reply, Request, Result, Stack, Store, Watch,
    WatchStream,
};

use crate::fault_control::FaultControl;
use crate::fault_layer::FaultLayer;

/// A store with faults. Clones are handles of the same store.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    stack: Stack,
    control: FaultControl,
}

impl FaultyStore {
    /// A store that has no watches; nothing fails yet.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self::with(Stack::without_watches(store))
    }

    /// A store with watches; nothing fails yet.
    pub fn over_watched<S: Store + Watch + 'static>(store: Arc<S>) -> Self {
        Self::with(store.into())
    }

    fn with(stack: Stack) -> Self {
        let control = FaultControl::default();
        Self { stack: stack.wrapped_by(|next| FaultLayer::new(next, control.clone())), control }
    }
}

impl Deref for FaultyStore {
    type Target = FaultControl;

    fn deref(&self) -> &FaultControl {
        &self.control
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        self.stack.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.stack.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.stack.capabilities()
    }
}

#[async_trait]
impl Watch for FaultyStore {
    async fn watch(&self, object: &ObjectId) -> Result<WatchStream> {
        self.stack.watch(object).await
    }

    async fn notify(&self, object: &ObjectId, payload: Bytes) -> Result<()> {
        self.stack.notify(object, payload).await
    }
}
