//! `Pool`: a set of objects.

use std::sync::Arc;

use nacre_object::{ListPage, ListRequest, ObjectName, PoolName, Result, Store};

use crate::Object;

/// A handle on a pool. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool {
    store: Arc<dyn Store>,
    name: PoolName,
}

impl Pool {
    /// The pool `name` of any store: a cluster's, or one put together by hand.
    pub fn on(store: Arc<dyn Store>, name: PoolName) -> Self {
        Self { store, name }
    }

    /// Its name.
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// One of its objects, which need not exist.
    ///
    /// # Errors
    /// `Invalid` if the name is not one.
    pub fn object(&self, name: &str) -> Result<Object> {
        Ok(Object::new(self.clone(), ObjectName::new(name)?))
    }

    /// Up to `limit` names that start with `prefix` and come after `after`, in byte order.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot list; `Unavailable` if a target does not answer.
    pub async fn list(
        &self,
        after: Option<ObjectName>,
        prefix: &str,
        limit: usize,
    ) -> Result<ListPage> {
        let pool = self.name.clone();
        self.store.list(ListRequest { pool, after, prefix: prefix.into(), limit }).await
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
