//! Watches of RADOS objects, and notifications to them.
//!
//! librados passes a number to the callback of a watch, not a pointer, and the callback looks up
//! the listener by this number. If librados calls it after the watch has ended, the callback finds
//! no listener and uses no freed memory.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::cluster::{c_string, on_librados_thread};
use super::completion::{self, Answer};
use super::io_context::IoContext;
use crate::in_flight::Permit;

/// Receives the events of a watch. librados calls it on one of its own threads, so it must not
/// wait.
pub trait Listener: Send + Sync {
    /// The object was notified.
    fn notified(&self, letter: &[u8]);
    /// The watch broke; notifications may have been missed.
    fn broken(&self);
}

/// The id of a watch, valid until the watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchId {
    key: usize,
    cookie: u64,
}

/// The listener of a watch, and the io context by which notifications are acknowledged.
#[derive(Clone)]
struct Entry {
    context: Arc<IoContext>,
    object: Arc<str>,
    listener: Arc<dyn Listener>,
}

struct Entries {
    next: usize,
    by_key: BTreeMap<usize, Entry>,
}

static ENTRIES: Mutex<Entries> = Mutex::new(Entries { next: 1, by_key: BTreeMap::new() });

fn entries() -> MutexGuard<'static, Entries> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn enter(entry: Entry) -> usize {
    let mut entries = entries();
    let key = entries.next;
    entries.next += 1;
    entries.by_key.insert(key, entry);
    key
}

impl IoContext {
    /// Watches an object, which must exist. If this client is silent for `timeout`, the cluster
    /// drops the watch.
    ///
    /// # Errors
    /// librados' status.
    pub async fn watch(
        self: &Arc<Self>,
        object: &str,
        timeout: Duration,
        listener: Arc<dyn Listener>,
    ) -> Result<WatchId, i32> {
        let key = enter(Entry { context: self.clone(), object: object.into(), listener });
        let (answer, cookie) = self.settle(self.start_watch(object, timeout, key)).await;
        match cookie {
            Some(cookie) if answer.status >= 0 => Ok(WatchId { key, cookie: *cookie }),
            _ => {
                entries().by_key.remove(&key);
                Err(answer.status)
            }
        }
    }

    fn start_watch(
        self: &Arc<Self>,
        object: &str,
        timeout: Duration,
        key: usize,
    ) -> tokio::sync::oneshot::Receiver<(Answer, Box<u64>)> {
        let object = c_string(object);
        let library = self.cluster.library;
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
        completion::start(library, Box::new(0_u64), None, |completion, cookie| {
            // SAFETY: the cookie's place stays until the completion; the argument is a number.
            unsafe {
                (library.rados_aio_watch2)(
                    self.handle,
                    object.as_ptr(),
                    completion,
                    &raw mut **cookie,
                    notified,
                    broken,
                    seconds,
                    ptr::without_provenance_mut(key),
                )
            }
        })
    }

    /// How long ago the cluster last confirmed a watch; `None` if the watch is broken. Call this
    /// only before the watch has ended, because librados uses its number as a pointer.
    pub fn silence(&self, watch: WatchId) -> Option<Duration> {
        // SAFETY: the context is alive, and so is the watch.
        let millis = unsafe { (self.cluster.library.rados_watch_check)(self.handle, watch.cookie) };
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    /// Ends a watch.
    pub async fn unwatch(self: &Arc<Self>, watch: WatchId) {
        entries().by_key.remove(&watch.key);
        self.settle(self.start_unwatch(watch)).await;
    }

    fn start_unwatch(
        self: &Arc<Self>,
        watch: WatchId,
    ) -> tokio::sync::oneshot::Receiver<(Answer, Arc<Self>)> {
        let library = self.cluster.library;
        completion::start(library, self.clone(), None, |completion, _| {
            // SAFETY: the context is alive, and so is the watch, because its owner ends it only
            // once.
            unsafe { (library.rados_aio_unwatch)(self.handle, watch.cookie, completion) }
        })
    }

    /// A permit for a notification, if one is free.
    pub fn admit_notification(&self) -> Option<Permit> {
        self.cluster.in_flight.admit_notification()
    }

    /// Notifies an object's watchers. Waits until all watchers have acknowledged, or until
    /// `timeout` has passed. Returns the status, and whether the object's OSD answered. The
    /// notification holds its permit until librados is done, even if the caller has stopped
    /// waiting.
    pub async fn notify(
        self: &Arc<Self>,
        object: &str,
        letter: Vec<u8>,
        timeout: Duration,
        room: Permit,
    ) -> (i32, bool) {
        let notifying = self.start_notify(object, letter, timeout, room);
        let (answer, reply) = self.settle(notifying).await;
        (answer.status, reply.is_some_and(|reply| !reply.start.is_null()))
    }

    fn start_notify(
        self: &Arc<Self>,
        object: &str,
        letter: Vec<u8>,
        timeout: Duration,
        room: Permit,
    ) -> tokio::sync::oneshot::Receiver<(Answer, AckList)> {
        let object = c_string(object);
        let library = self.cluster.library;
        let length = c_int::try_from(letter.len()).unwrap_or(c_int::MAX);
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let reply = AckList { context: self.clone(), start: ptr::null_mut(), length: 0 };
        completion::start(library, reply, Some(room), |completion, reply| {
            // SAFETY: librados copies the letter, and writes to the reply before it completes.
            unsafe {
                (library.rados_aio_notify)(
                    self.handle,
                    object.as_ptr(),
                    completion,
                    letter.as_ptr().cast(),
                    length,
                    millis,
                    &raw mut (*reply).start,
                    &raw mut (*reply).length,
                )
            }
        })
    }
}

/// The watchers that acknowledged a notification, in a buffer of librados.
struct AckList {
    context: Arc<IoContext>,
    start: *mut std::ffi::c_char,
    length: usize,
}

// SAFETY: the buffer is not shared.
unsafe impl Send for AckList {}

impl Drop for AckList {
    fn drop(&mut self) {
        if !self.start.is_null() {
            // SAFETY: librados made the buffer for us.
            unsafe { (self.context.cluster.library.rados_buffer_free)(self.start) }
        }
    }
}

fn entry_of(argument: *mut c_void) -> Option<Entry> {
    entries().by_key.get(&argument.addr()).cloned()
}

unsafe extern "C" fn notified(
    argument: *mut c_void,
    notify_id: u64,
    cookie: u64,
    _: u64,
    data: *mut c_void,
    length: usize,
) {
    on_librados_thread();
    let Some(Entry { context, object, listener }) = entry_of(argument) else { return };
    let letter = if data.is_null() || length == 0 {
        &[][..]
    } else {
        // SAFETY: librados lends its buffer for the time of this call.
        unsafe { std::slice::from_raw_parts(data.cast(), length) }
    };
    listener.notified(letter);
    let object = c_string(&object);
    let library = context.cluster.library;
    // SAFETY: the context is alive. An acknowledgement that is lost only makes the notifier wait.
    unsafe {
        let (none, handle) = (ptr::null(), context.handle);
        (library.rados_notify_ack)(handle, object.as_ptr(), notify_id, cookie, none, 0);
    }
}

unsafe extern "C" fn broken(argument: *mut c_void, _: u64, _: c_int) {
    on_librados_thread();
    if let Some(entry) = entry_of(argument) {
        entry.listener.broken();
    }
}
