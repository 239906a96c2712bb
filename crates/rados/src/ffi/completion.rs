//! Awaits the completions of librados' operations.
//!
//! **Invariant:** a completion owns a box. The box holds everything that librados has a pointer to,
//! and the operation's permit. Only librados' callback takes the box back. So a caller that stops
//! waiting frees neither memory that librados still uses nor the permit.

use std::ffi::{c_int, c_void};

use tokio::sync::oneshot;

use super::cluster::on_librados_thread;
use super::library::{Handle, Library};
use crate::in_flight::Permit;

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Zero or positive, or a negated errno.
    pub status: i32,
    /// The version of the object: the new version after a write, the present one after a read. If
    /// the object does not exist, the number is at least as great as every version that the object
    /// ever had.
    pub version: u64,
}

/// An operation that librados works on.
struct Pending<K> {
    library: &'static Library,
    kept: K,
    /// Given back when it is done.
    _room: Option<Permit>,
    waiting: oneshot::Sender<(Answer, K)>,
}

/// Starts an operation and returns a receiver for its answer. `room` is the operation's permit.
/// `submit` hands the operation to librados; it receives the completion and the address of `kept`,
/// which stays valid until the operation is done. The operation may be done before `submit`
/// returns. So `submit` must hold no reference to `kept` once librados has the operation.
pub fn start<K: Send + 'static>(
    library: &'static Library,
    kept: K,
    room: Option<Permit>,
    submit: impl FnOnce(Handle, *mut K) -> c_int,
) -> oneshot::Receiver<(Answer, K)> {
    let (waiting, answer) = oneshot::channel();
    let pending = Box::into_raw(Box::new(Pending { library, kept, _room: room, waiting }));
    let mut completion: Handle = std::ptr::null_mut();
    // SAFETY: `complete::<K>` expects a `Pending<K>`, and is called once at most.
    let status = unsafe {
        (library.rados_aio_create_completion2)(pending.cast(), complete::<K>, &mut completion)
    };
    assert!(status == 0, "librados makes completions from memory alone");
    // SAFETY: the box is not shared before the operation is submitted.
    let status = submit(completion, unsafe { &raw mut (*pending).kept });
    if status < 0 {
        // SAFETY: an operation that was not submitted is never completed, so this code still owns
        // the completion and the box.
        let pending = unsafe {
            (library.rados_aio_release)(completion);
            *Box::from_raw(pending)
        };
        pending.finish(Answer { status, version: 0 });
    }
    answer
}

impl<K> Pending<K> {
    fn finish(self, answer: Answer) {
        // The caller may no longer wait.
        let _ = self.waiting.send((answer, self.kept));
    }
}

/// Runs on a thread of librados.
unsafe extern "C" fn complete<K: Send + 'static>(completion: Handle, argument: *mut c_void) {
    on_librados_thread();
    // SAFETY: `start` gave this pointer to this completion, which librados completes only once.
    let pending = unsafe { *Box::from_raw(argument.cast::<Pending<K>>()) };
    let library = pending.library;
    // SAFETY: the completion is librados' own, alive until it is released here.
    let answer = unsafe {
        let status = (library.rados_aio_get_return_value)(completion);
        let version = (library.rados_aio_get_version)(completion);
        (library.rados_aio_release)(completion);
        Answer { status, version }
    };
    pending.finish(answer);
}
