//! How a process ends that may still be connected.

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::ptr;

use super::cluster::connected;

unsafe extern "C" {
    /// Has the C library call a function when the process ends, with the exit status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    /// Ends the process, and does nothing else: C's and C++'s globals stay as they are.
    fn _exit(status: c_int) -> !;
}

/// From now on, if the process ends while a connection is open, the globals of C and C++ stay as
/// they are, because the threads of librados still use them. A connection is open at the end if the
/// cluster does not answer and the user interrupts the command, or if a task is ending a watch at
/// that moment.
///
/// Call this function after librados is loaded. The C library calls [`end`] first, and destroys the
/// globals of librados afterwards.
pub(super) fn keep_globals_while_connected() {
    // SAFETY: the function has no requirements. If it fails, the process ends as any other.
    unsafe { on_exit(end, ptr::null_mut()) };
}

extern "C" fn end(status: c_int, _: *mut c_void) {
    if connected() == 0 {
        return;
    }
    // Flushes the output, as an ordinary exit does. An error could not be reported any more.
    let _ = std::io::stdout().flush();
    // SAFETY: the function takes any number and never returns.
    unsafe { _exit(status) }
}
