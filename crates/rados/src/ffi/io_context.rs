//! One namespace of a pool, and operations on its objects.

use std::ptr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot::Receiver;

use super::MAX_PARTS;
use super::cluster::{Cluster, c_string, check};
use super::completion::{self, Answer};
use super::library::{FULL_TRY, Handle};
use super::read::{Fetch, Fetched, ReadOperation};
use super::write::{Change, WriteOperation};
use crate::cluster::failure::status;
use crate::in_flight::Permit;

/// A namespace of a pool.
#[derive(Debug)]
pub struct IoContext {
    pub(super) cluster: Arc<Cluster>,
    pub(super) handle: Handle,
}

// SAFETY: several threads may use an io context at once, as long as its settings do not change. Its
// settings change only while the context is created.
unsafe impl Send for IoContext {}
// SAFETY: as above.
unsafe impl Sync for IoContext {}

impl IoContext {
    /// Opens a namespace of a pool, which exists if the pool does.
    ///
    /// # Errors
    /// librados' status.
    pub fn open(cluster: Arc<Cluster>, pool: &str, namespace: &str) -> Result<Self, i32> {
        let (pool, namespace) = (c_string(pool), c_string(namespace));
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written only on success; librados copies the names.
        unsafe {
            let library = cluster.library;
            check((library.rados_ioctx_create)(cluster.handle, pool.as_ptr(), &mut handle))?;
            (library.rados_ioctx_set_namespace)(handle, namespace.as_ptr());
        }
        Ok(Self { cluster, handle })
    }

    /// Opens another namespace of the same pool. If the pool was deleted and a new pool of the same
    /// name exists, fails instead of opening the new pool.
    ///
    /// # Errors
    /// librados' status, among others [`status::POOL_GONE`].
    pub fn namespace(&self, namespace: &str) -> Result<Self, i32> {
        // Otherwise librados would wait for the monitors.
        if self.is_pool_gone() {
            return Err(status::POOL_GONE);
        }
        Self::open_by_id(self.cluster.clone(), self.pool_id(), namespace)
    }

    /// Opens a namespace of the pool with this number. No later pool ever gets the same number. If
    /// this client's map has no such pool, librados waits for the monitors without a deadline: call
    /// this function on a thread that may block.
    ///
    /// # Errors
    /// librados' status; [`status::POOL_GONE`] if there is no such pool.
    pub fn open_by_id(cluster: Arc<Cluster>, pool: i64, namespace: &str) -> Result<Self, i32> {
        let namespace = c_string(namespace);
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is written only on success; librados copies the name.
        let made = check(unsafe {
            (cluster.library.rados_ioctx_create2)(cluster.handle, pool, &mut handle)
        });
        made.map_err(|failed| if failed == status::ABSENT { status::POOL_GONE } else { failed })?;
        // SAFETY: as above.
        unsafe { (cluster.library.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
        Ok(Self { cluster, handle })
    }

    /// The number of its pool.
    pub fn pool_id(&self) -> i64 {
        // SAFETY: the handle is alive.
        unsafe { (self.cluster.library.rados_ioctx_get_id)(self.handle) }
    }

    /// The connection.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Corrects the status of an operation: librados reports objects of a removed pool as absent.
    pub(super) fn or_pool_gone(&self, status: i32) -> i32 {
        if status == status::ABSENT && self.is_pool_gone() { status::POOL_GONE } else { status }
    }

    /// Whether the pool was deleted, by this client's map. The map is new enough: an operation only
    /// fails for a missing pool after librados has seen a map without the pool. This function never
    /// waits, so it also answers when the monitors do not.
    fn is_pool_gone(&self) -> bool {
        let mut no_room = 0;
        // SAFETY: librados writes nothing to a place of no bytes.
        let found = unsafe {
            (self.cluster.library.rados_ioctx_get_pool_name)(self.handle, &mut no_room, 0)
        };
        found == status::ABSENT
    }

    /// Waits for an operation.
    pub(super) async fn settle<K>(&self, operation: Receiver<(Answer, K)>) -> (Answer, Option<K>) {
        let (mut answer, kept) = settle(operation).await;
        answer.status = self.or_pool_gone(answer.status);
        (answer, kept)
    }

    /// Reads parts of an object in one consistent read. If `version` is given, the read fails
    /// unless the object has that version.
    pub async fn fetch(
        self: &Arc<Self>,
        object: &str,
        version: Option<u64>,
        fetches: Vec<Fetch>,
    ) -> (Answer, Vec<Fetched>) {
        if let Some(refused) = too_many(fetches.len()) {
            return (refused, vec![]);
        }
        let bytes = fetches.iter().map(Fetch::data_bytes).sum();
        let room = self.cluster.in_flight.admit(bytes).await;
        let reading = self.start_fetch(object, version, fetches, room);
        let (answer, operation) = self.settle(reading).await;
        match operation {
            Some(operation) if answer.status >= 0 => match operation.results() {
                Some(fetched) => (answer, fetched),
                None => (Answer { status: status::BROKEN, ..answer }, vec![]),
            },
            _ => (answer, vec![]),
        }
    }

    fn start_fetch(
        self: &Arc<Self>,
        object: &str,
        version: Option<u64>,
        fetches: Vec<Fetch>,
        room: Permit,
    ) -> Receiver<(Answer, ReadOperation)> {
        let object = c_string(object);
        let operation = ReadOperation::new(self.clone(), fetches);
        let library = self.cluster.library;
        completion::start(library, operation, Some(room), |completion, operation| {
            // SAFETY: librados is given places within the boxed operation, which stays.
            unsafe { ReadOperation::submit(operation, version, &object, completion) }
        })
    }

    /// Changes an object: all of the changes happen, in order, or none.
    pub async fn apply(self: &Arc<Self>, object: &str, changes: &[Change]) -> Answer {
        if let Some(refused) = too_many(changes.len()) {
            return refused;
        }
        let bytes = changes.iter().map(Change::payload_bytes).sum();
        let room = self.cluster.in_flight.admit(bytes).await;
        self.settle(self.start_apply(object, changes, room)).await.0
    }

    /// Appends to an object's data, and does nothing else.
    pub async fn append(self: &Arc<Self>, object: &str, data: Bytes) -> Answer {
        let name = c_string(object);
        let library = self.cluster.library;
        let room = self.cluster.in_flight.admit(data.len()).await;
        let kept = (self.clone(), data);
        let appending = completion::start(library, kept, Some(room), |completion, kept| {
            // SAFETY: all handles are alive; the data stays with the completion.
            unsafe {
                let data = &(*kept).1;
                let (start, length) = (data.as_ptr().cast(), data.len());
                (library.rados_aio_append)(self.handle, name.as_ptr(), completion, start, length)
            }
        });
        self.settle(appending).await.0
    }

    fn start_apply(
        self: &Arc<Self>,
        object: &str,
        changes: &[Change],
        room: Permit,
    ) -> Receiver<(Answer, Arc<Self>)> {
        let object = c_string(object);
        let library = self.cluster.library;
        let operation = WriteOperation::new(library, changes);
        completion::start(library, self.clone(), Some(room), |completion, _| {
            // SAFETY: all handles are alive; librados has copied what is written.
            unsafe {
                (library.rados_aio_write_op_operate)(
                    operation.handle,
                    self.handle,
                    completion,
                    object.as_ptr(),
                    ptr::null_mut(),
                    FULL_TRY,
                )
            }
        })
    }
}

impl Drop for IoContext {
    fn drop(&mut self) {
        // SAFETY: whatever uses the context holds it.
        unsafe { (self.cluster.library.rados_ioctx_destroy)(self.handle) }
    }
}

/// The answer to an operation with more parts (guards included) than RADOS can count.
fn too_many(parts: usize) -> Option<Answer> {
    (parts >= MAX_PARTS).then_some(Answer { status: status::TOO_LARGE, version: 0 })
}

/// Waits for an operation. librados drops an operation without an answer only when it shuts down.
async fn settle<K>(operation: Receiver<(Answer, K)>) -> (Answer, Option<K>) {
    const SHUT_DOWN: i32 = -108;
    match operation.await {
        Ok((answer, kept)) => (answer, Some(kept)),
        Err(_) => (Answer { status: SHUT_DOWN, version: 0 }, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_more_parts_than_rados_counts_are_refused() {
        assert_eq!(too_many(MAX_PARTS - 1), None);
        for parts in [MAX_PARTS, usize::from(u16::MAX) + 2] {
            assert_eq!(too_many(parts).map(|answer| answer.status), Some(status::TOO_LARGE));
        }
    }
}
