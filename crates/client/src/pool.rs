//! `Pool`: a set of objects.

use std::sync::Arc;

use nacre_object::{ListPage, ListRequest, Locate, ObjectId, ObjectName, PoolName, Result, Store};
use nacre_placement::PlacedStore;

use crate::Object;

/// A handle to a pool. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct Pool {
    store: Arc<dyn Store>,
    /// Where objects are; `None` if all are in one place.
    placed: Option<Arc<PlacedStore>>,
    name: PoolName,
}

impl Pool {
    /// The pool `name` of a store that keeps all objects on one target.
    pub fn on(store: Arc<dyn Store>, name: PoolName) -> Self {
        Self { store, placed: None, name }
    }

    /// The pool `name` of a store that spreads objects over targets.
    pub(crate) fn on_targets(store: Arc<PlacedStore>, name: PoolName) -> Self {
        Self { store: store.clone(), placed: Some(store), name }
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

    /// Whether two objects are on the same target. Only then can one take over the content of the
    /// other.
    pub(crate) fn share_target(&self, one: &ObjectId, other: &ObjectId) -> bool {
        self.placed.as_ref().is_none_or(|placed| placed.locate(one) == placed.locate(other))
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
