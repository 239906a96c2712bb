//! The operations on stored objects that a transaction needs. RADOS implements them; so do tests.

use std::sync::Arc;

use crate::ffi::{Answer, Change, Fetch, Fetched, IoContext};

/// Stored objects: a namespace of the pool, or a simulation in a test.
pub trait Objects: Sync {
    /// Reads parts of an object in one consistent read. If `version` is given, the read fails
    /// unless the object has that version.
    fn fetch(
        &self,
        object: &str,
        version: Option<u64>,
        fetches: &[Fetch],
    ) -> impl Future<Output = (Answer, Vec<Fetched>)> + Send;

    /// Changes an object: all of the changes happen, in order, or none.
    fn apply(&self, object: &str, changes: &[Change]) -> impl Future<Output = Answer> + Send;
}

impl Objects for Arc<IoContext> {
    async fn fetch(
        &self,
        object: &str,
        version: Option<u64>,
        fetches: &[Fetch],
    ) -> (Answer, Vec<Fetched>) {
        IoContext::fetch(self, object, version, fetches.to_vec()).await
    }

    async fn apply(&self, object: &str, changes: &[Change]) -> Answer {
        IoContext::apply(self, object, changes).await
    }
}
