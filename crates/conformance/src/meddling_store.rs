//! A store in which another client seems to write just before some requests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nacre_object::{Capabilities, ListPage, ListRequest, ObjectId, Reply, Request, Result, Store};

use crate::{MemoryStore, ops};

/// A store in memory for tests of conflicts. Just before some requests it changes one object, as
/// another client would: it overwrites the start of the stream with the number of the request.
#[derive(Debug)]
pub struct MeddlingStore {
    store: MemoryStore,
    object: ObjectId,
    /// The numbers of the requests before which the object changes, counted from 0.
    before: BTreeSet<usize>,
    requests: AtomicUsize,
}

impl MeddlingStore {
    /// Passes requests on to `store`, and changes `object` before the requests with these numbers.
    pub fn new(
        store: MemoryStore,
        object: ObjectId,
        before: impl IntoIterator<Item = usize>,
    ) -> Self {
        let before = before.into_iter().collect();
        Self { store, object, before, requests: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Store for MeddlingStore {
    async fn submit(&self, request: Request) -> Result<Reply> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        if self.before.contains(&number) {
            let change = vec![ops::write(0, number.to_string())];
            self.store.submit(Request::new(self.object.clone(), change)?).await?;
        }
        self.store.submit(request).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.store.list(request).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}
