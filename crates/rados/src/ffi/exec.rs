//! A call of a method of an object class.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot::Receiver;

use super::cluster::c_string;
use super::completion::{self, Answer};
use super::io_context::IoContext;
use super::library::{FULL_TRY, Handle, MAY_FAIL, RETURN_OUTPUT, Time};
use crate::in_flight::Permit;

/// The called method and its input.
#[derive(Debug, Clone)]
pub struct Call {
    /// The class.
    pub class: &'static CStr,
    /// The method.
    pub method: &'static CStr,
    /// Its input.
    pub input: Bytes,
    /// Whether the class has declared that the method writes. A call of such a method carries the
    /// time of the change, and also works on an object that does not exist.
    pub writes: bool,
    /// Whether to find out if the object exists afterwards.
    pub asks_existence: bool,
}

/// The output of a method that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Zero or positive.
    pub status: i32,
    /// Its output.
    pub output: Bytes,
    /// Whether the object exists then, if that was asked.
    pub exists: bool,
}

/// A call with the buffers for its results.
struct CallOperation {
    context: Arc<IoContext>,
    output: *mut c_char,
    length: usize,
    status: c_int,
    size: u64,
    modified: Time,
    stat_status: c_int,
}

// SAFETY: the output is a buffer of librados' that is not shared.
unsafe impl Send for CallOperation {}

impl IoContext {
    /// Calls a method of the class in the object's OSD. A negative status of the answer means that
    /// the call changed nothing, with one exception: if no answer came in time, the outcome is
    /// unknown.
    pub async fn call(self: &Arc<Self>, object: &str, call: &Call) -> (Answer, Option<Called>) {
        let room = self.cluster.in_flight.admit(call.input.len()).await;
        let (answer, operation) = self.settle(self.start_call(object, call, room)).await;
        match operation {
            Some(operation) if answer.status >= 0 => (answer, Some(operation.called())),
            _ => (answer, None),
        }
    }

    fn start_call(
        self: &Arc<Self>,
        object: &str,
        call: &Call,
        room: Permit,
    ) -> Receiver<(Answer, CallOperation)> {
        let object = c_string(object);
        let operation = CallOperation {
            context: self.clone(),
            output: ptr::null_mut(),
            length: 0,
            status: 0,
            size: 0,
            modified: 0,
            stat_status: 0,
        };
        completion::start(self.cluster.library, operation, Some(room), |completion, operation| {
            // SAFETY: librados is given places within the boxed operation, which stays.
            unsafe { CallOperation::submit(operation, call, &object, completion) }
        })
    }
}

impl CallOperation {
    /// Hands the call to librados.
    ///
    /// librados' C interface has no function that adds a method with an output to a write
    /// operation. As part of a read operation, the method would not update the object's
    /// modification time. But read and write operations have the same layout in memory
    /// (`ObjectOperationImpl`, since Ceph 14; before that they were one type). So the function for
    /// read operations also works on a write operation.
    ///
    /// # Safety
    /// `this` must be alive and unshared until librados has the operation, and must not move until
    /// the completion is called.
    unsafe fn submit(this: *mut Self, call: &Call, object: &CStr, completion: Handle) -> c_int {
        // SAFETY: librados copies what it needs of a submitted operation. After submitting, this
        // code does not touch `this`, because librados' thread may complete the operation at once.
        unsafe {
            let (library, context) = {
                let context = &(*this).context;
                (context.cluster.library, context.handle)
            };
            if call.writes {
                let operation = (library.rados_create_write_op)();
                Self::add_to(this, operation, call);
                let (object, now) = (object.as_ptr(), ptr::null_mut());
                let status = (library.rados_aio_write_op_operate)(
                    operation,
                    context,
                    completion,
                    object,
                    now,
                    FULL_TRY | RETURN_OUTPUT,
                );
                (library.rados_release_write_op)(operation);
                status
            } else {
                let operation = (library.rados_create_read_op)();
                Self::add_to(this, operation, call);
                let object = object.as_ptr();
                let status =
                    (library.rados_aio_read_op_operate)(operation, context, completion, object, 0);
                (library.rados_release_read_op)(operation);
                status
            }
        }
    }

    /// Adds the parts of the call to an operation.
    ///
    /// # Safety
    /// As for [`Self::submit`]; the operation must be alive.
    unsafe fn add_to(this: *mut Self, operation: Handle, call: &Call) {
        // SAFETY: librados copies class, method and input.
        unsafe {
            let context = &(*this).context;
            let library = context.cluster.library;
            (library.rados_read_op_exec)(
                operation,
                call.class.as_ptr(),
                call.method.as_ptr(),
                call.input.as_ptr().cast(),
                call.input.len(),
                &raw mut (*this).output,
                &raw mut (*this).length,
                &raw mut (*this).status,
            );
            if call.asks_existence {
                let (size, modified) = (&raw mut (*this).size, &raw mut (*this).modified);
                let status = &raw mut (*this).stat_status;
                (library.rados_read_op_stat)(operation, size, modified, status);
                (library.rados_read_op_set_flags)(operation, MAY_FAIL);
            }
        }
    }

    fn called(self) -> Called {
        let output = match self.output.is_null() {
            true => Bytes::new(),
            // SAFETY: librados has said how long its buffer is.
            false => Bytes::copy_from_slice(unsafe {
                std::slice::from_raw_parts(self.output.cast(), self.length)
            }),
        };
        Called { status: self.status, output, exists: self.stat_status >= 0 }
    }
}

impl Drop for CallOperation {
    fn drop(&mut self) {
        if !self.output.is_null() {
            // SAFETY: librados made the buffer for us.
            unsafe { (self.context.cluster.library.rados_buffer_free)(self.output) }
        }
    }
}
